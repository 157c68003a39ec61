import {readFileSync} from 'node:fs'
import {join} from 'node:path'
import {ROOT} from '../helpers/run-command.js'

/** Output that a page quotes: the lines after "$ command" up to the next command, without indent. */
export function quotedOutput(page: string, command: string): string[] {
  const lines = readFileSync(join(ROOT, 'docs', page), 'utf8').split('\n')
  // A command that is shown several times is quoted where lines follow it.
  for (const [at, line] of lines.entries()) {
    if (line.replace(/ +#.*$/, '').trim() !== `$ ${command}`) continue
    const rest = lines.slice(at + 1)
    const quoted = rest.slice(
      0,
      rest.findIndex(each => /^\s*(\$ |```)/.test(each)),
    )
    if (quoted.length > 0) return quoted
  }
  throw new Error(`${page} quotes no output of "${command}"`)
}
