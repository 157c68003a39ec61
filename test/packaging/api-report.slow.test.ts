import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterAll, beforeAll, describe, expect, it} from 'vitest'
import {ROOT, run} from '../e2e/zael.js'

const report = (...args: string[]) => run(process.execPath, ['.ci/api-report.js', ...args], {})
const PAGE = readFileSync(join(ROOT, 'docs/api.md'), 'utf8')

describe('docs/api.md', () => {
  it('matches the declarations in dist', async () => {
    // The compiler's server sometimes prints "context canceled" on stderr when it is closed.
    expect(await report('--check')).toMatchObject({code: 0, stdout: ''})
  })

  it('has a section for every entry point with types, in order', () => {
    const {exports} = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
    const titles = Object.keys(exports).filter(path => exports[path].types)
    expect([...PAGE.matchAll(/^## (.+)$/gm)].map(([, title]) => title)).toEqual(
      titles.map(path => `zael${path.slice(1)}`).toSorted(),
    )
  })

  it('lists every value that an entry point exports', async () => {
    const sections = PAGE.split(/^## /m).slice(1)
    const listed = sections.map(section => {
      const names = [...section.matchAll(/(?<!^\/\/ type only\n)^(?:class|const|function) (\w+)/gm)].map(
        ([, name]) => name,
      )
      return [section.split('\n', 1)[0], [...new Set(names)].toSorted()]
    })
    const titles = JSON.stringify(listed.map(([title]) => title))
    const program = `const values = ${titles}.map(async name => [name, Object.keys(await import(name)).sort()])
      console.log(JSON.stringify(await Promise.all(values)))`
    const {stdout} = await run(process.execPath, ['--input-type=module', '--eval', program], {})
    expect(listed).toEqual(JSON.parse(stdout))
  })

  it('contains no source comments and no private members', () => {
    expect(PAGE.match(/\/\*|\/\/(?! type only$)|\bprivate\b|#private/gm)).toBeNull()
  })
})

describe('the script', () => {
  let folder = ''
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'zael-api-'))
  })
  afterAll(() => rmSync(folder, {recursive: true}))

  it('reports a stale file with --check, and writes it without', async () => {
    const file = join(folder, 'api.md')
    writeFileSync(file, PAGE.replace('class Aborted', 'class Stopped'))
    expect(await report('--check', file)).toMatchObject({code: 1, stderr: expect.stringContaining('npm run build')})
    expect(await report(file)).toMatchObject({code: 0})
    expect(readFileSync(file, 'utf8')).toBe(PAGE)
  })
})
