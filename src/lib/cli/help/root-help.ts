import {readFile} from 'node:fs/promises'
import {packageFile} from '../../files/package-file.js'
import {HELP_TOPICS} from './topics.js'

interface CommandLine {
  readonly oclif: {
    readonly bin: string
    readonly description: string
    readonly topics: Readonly<Record<string, {readonly description: string}>>
  }
  readonly commands: Readonly<Record<string, {readonly summary?: string; readonly hidden?: boolean}>>
}

const PIPE_COLUMNS = 80
const LEAST_COLUMNS = 40

const BOLD = '\u001b[1m'
const NOT_BOLD = '\u001b[22m'

/** Avoids loading oclif, which takes several times as long. */
export async function showRootHelp(stdout: NodeJS.WriteStream = process.stdout): Promise<void> {
  const [{oclif}, {commands}] = await Promise.all(
    ['package.json', 'oclif.manifest.json'].map(async name => JSON.parse(await readFile(packageFile(name), 'utf8'))),
  )
  const width = Math.max(LEAST_COLUMNS, stdout.columns || PIPE_COLUMNS)
  stdout.write(`${rootHelp({oclif, commands}, {width, isBold: hasColours(stdout)})}\n`)
}

export function rootHelp({oclif, commands}: CommandLine, {width, isBold}: {width: number; isBold: boolean}): string {
  const section = (title: string, lines: readonly string[]) =>
    [isBold ? `${BOLD}${title}${NOT_BOLD}` : title, ...lines.map(line => `  ${line}`)].join('\n')
  const list = (rows: ReadonlyArray<readonly [string, string]>) => inColumns(rows, width - 2)
  const shown = Object.entries(commands).filter(([id, {hidden}]) => !hidden && !id.includes(':'))
  const groups = Object.entries(oclif.topics).map(([name, {description}]) => [name, description] as const)
  return [
    oclif.description
      .split('\n')
      .map(line => wrapped(line, width).join('\n'))
      .join('\n'),
    section('USAGE', [`$ ${oclif.bin} COMMAND [FLAGS]`]),
    section('TOPICS', list(groups.toSorted(([a], [b]) => (a < b ? -1 : 1)))),
    section('COMMANDS', list(shown.map(([id, {summary = ''}]) => [id, summary]))),
    section('HELP TOPICS', list(HELP_TOPICS.map(({name, summary}) => [name, summary]))),
    wrapped(`Run "${oclif.bin} help" with a command or a help topic for details.`, width).join('\n'),
  ].join('\n\n')
}

/** The text is ASCII, so every character takes one column. */
function inColumns(rows: ReadonlyArray<readonly [string, string]>, width: number): string[] {
  const left = Math.max(...rows.map(([name]) => name.length)) + 2
  return rows.flatMap(([name, text]) =>
    wrapped(text, width - left).map((line, at) => (at === 0 ? name : '').padEnd(left) + line),
  )
}

function wrapped(text: string, width: number): string[] {
  const lines = ['']
  for (const word of text.split(' ')) {
    const line = lines.at(-1) as string
    if (line === '') lines[lines.length - 1] = word
    else if (line.length + 1 + word.length <= width) lines[lines.length - 1] = `${line} ${word}`
    else lines.push(word)
  }
  return lines
}

/** Node checks NO_COLOR, FORCE_COLOR and TERM for a terminal; for a pipe only FORCE_COLOR counts. */
function hasColours(stdout: NodeJS.WriteStream): boolean {
  if (stdout.isTTY) return stdout.hasColors()
  return !['0', 'false', undefined].includes(process.env.FORCE_COLOR)
}
