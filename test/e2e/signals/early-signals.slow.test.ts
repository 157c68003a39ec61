import {spawn} from 'node:child_process'
import {randomUUID} from 'node:crypto'
import {readFileSync} from 'node:fs'
import {mkdir, mkdtemp, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {basename, join} from 'node:path'
import {fileURLToPath} from 'node:url'
import {afterAll, beforeAll, describe, expect, inject, it} from 'vitest'
import {cleanEnvironment} from '../../helpers/run-command.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'
import {engineProxy} from '../engine-proxy.js'
import {BIN, outcomeOf, ROOT} from '../zael.js'

const HOLD_IMPORT = fileURLToPath(new URL('hold-import.js', import.meta.url))

/** Runs the built command line; the signal comes while it loads the first module whose address contains `module`. */
function interruptedWhileLoading(module: string, signal: NodeJS.Signals, args: readonly string[]) {
  const env = cleanEnvironment({HOLD_IMPORT_OF: module, HOLD_IMPORT_SIGNAL: signal, XDG_CONFIG_HOME: home})
  return outcomeOf(spawn(process.execPath, ['--import', HOLD_IMPORT, BIN, ...args], {env}))
}

/** The end of the URL of a source's file in dist. */
function builtFrom(source: string): string {
  if (!source.endsWith('.ts')) return source
  const contents: Record<string, string[]> = JSON.parse(readFileSync(join(ROOT, 'dist/chunks/contents.json'), 'utf8'))
  const [file] = Object.entries(contents).find(([, sources]) => sources.includes(source)) ?? []
  if (file === undefined) throw new Error(`${source} is in no file of dist`)
  return basename(file)
}

const WORDS = 'Error: Interrupted: nothing was changed.\n'
const DEPLOY = ['deploy', '--yes']

let home = ''

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'zael-signals-'))
  await mkdir(join(home, 'zael'))
  await writeFile(join(home, 'zael', 'config.json'), '{"stack": "prod"}')
})
afterAll(() => rm(home, {recursive: true}))

describe('a signal before a command starts', () => {
  it.each([
    ['oclif', '/cli/main.js', 'SIGINT', 130],
    ['oclif', '/cli/main.js', 'SIGTERM', 143],
    ['the command', '/commands/deploy.js', 'SIGINT', 130],
    ['what reads its settings', 'src/lib/cli/base/settings-schema.ts', 'SIGTERM', 143],
  ] as const)('while %s is loaded: nothing was changed (%s, %s)', async (_, module, signal, code) => {
    expect(await interruptedWhileLoading(builtFrom(module), signal, DEPLOY)).toEqual({code, stdout: '', stderr: WORDS})
  })

  it('prints nothing during completion', async () => {
    const {code, stderr} = await interruptedWhileLoading('/completion/main.js', 'SIGINT', ['__complete', 'zael', 'de'])
    expect({code, stderr}).toEqual({code: null, stderr: ''})
  })
})

describeOnEngine('a signal during a command', () => {
  const table = useTable()

  it('does not claim that nothing was changed', async () => {
    let onHeld = () => {}
    const held = new Promise<void>(resolve => {
      onHeld = resolve
    })
    await using proxy = await engineProxy(inject('engineEndpoint'), operation => {
      if (!/Put|Update|Write/.test(operation)) return 'answered'
      onHeld()
      return 'unanswered'
    })
    const args = [
      'namespace',
      'create',
      `early-${randomUUID()}`,
      '--stack',
      table.name,
      '--endpoint-url',
      proxy.endpoint,
    ]
    const child = spawn(process.execPath, [BIN, ...args], {env: cleanEnvironment()})
    const ended = outcomeOf(child)
    await held
    child.kill('SIGINT')
    expect(await ended).toMatchObject({code: null, stderr: expect.not.stringContaining('nothing was changed')})
  })
})
