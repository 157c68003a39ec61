import {readFile} from 'node:fs/promises'
import {createRequire} from 'node:module'
import {tmpdir} from 'node:os'
import {dirname, join} from 'node:path'
import {fileURLToPath} from 'node:url'
import {Config} from '@oclif/core/config'
import {Exit, handle} from '@oclif/core/handle'
import type {Plugin} from '@oclif/core/interfaces'
import {run} from '@oclif/core/run'
import {settings} from '@oclif/core/settings'
import {redirectProcess} from './redirect-process.js'

export const ROOT = fileURLToPath(new URL('../..', import.meta.url))
export const BIN = join(ROOT, 'bin', 'run.js')

/** What a command leaves behind. */
export interface Outcome {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** What a command finds when it starts. */
export interface Surroundings {
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
  /** What it reads from standard input; nothing unless given. */
  readonly stdin?: string
  /** Width of the terminal that it writes to; a pipe unless given. */
  readonly columns?: number
}

/** Nothing but PATH and a home without settings: what the test runner exports must not leak in. */
export function cleanEnvironment(env: Readonly<Record<string, string>> = {}): Record<string, string> {
  return {PATH: process.env.PATH ?? '', HOME: tmpdir(), XDG_CONFIG_HOME: `${tmpdir()}/no-such-folder`, ...env}
}

/** A command that runs in this process. */
export interface RunningCommand {
  readonly ended: Promise<Outcome>
  /** What it has written so far. */
  readonly output: {readonly stdout: string; readonly stderr: string}
  /** Settles when it writes something. */
  written(): Promise<void>
}

const require = createRequire(import.meta.url)
/** Where oclif keeps the width that it found when it was loaded. */
const screen: {stdtermwidth: number; errtermwidth: number} = require(
  join(dirname(require.resolve('@oclif/core/package.json')), 'lib', 'screen.js'),
)

let last: Promise<unknown> = Promise.resolve()
let isRunning = false

/**
 * Runs the command line from its sources in this process, as `bin/run.js` does in one of its own. Since it takes over
 * the streams, the environment and the folder of this process, one runs at a time: others wait for it.
 */
export function runCommand(args: readonly string[], surroundings: Surroundings = {}): Promise<Outcome> {
  const outcome = last.then(() => startCommand(args, surroundings).ended)
  last = outcome.catch(() => {})
  return outcome
}

/** As `runCommand`, without waiting for the end; no other may run meanwhile. */
export function startCommand(args: readonly string[], surroundings: Surroundings = {}): RunningCommand {
  if (isRunning) throw new Error('another command runs in this process')
  isRunning = true
  const {env, cwd = ROOT, stdin = '', columns} = surroundings
  const redirected = redirectProcess({
    argv: [process.execPath, BIN, ...args],
    env: asBinDoes(cleanEnvironment(env), args),
    cwd,
    stdin,
    columns,
  })
  const ended = exitCodeOf(args)
    .then(code => ({code, ...redirected.output}))
    .finally(() => {
      redirected.restore()
      isRunning = false
    })
  return {ended, output: redirected.output, written: redirected.written}
}

/** What `bin/run.js` adds to the environment. */
function asBinDoes(env: Record<string, string>, args: readonly string[]): Record<string, string> {
  const noColor = (env.NO_COLOR && env.FORCE_COLOR === undefined) || args.includes('--no-color')
  return {
    NODE_ENV: 'production',
    OCLIF_DISABLE_ENGINE_WARNING: '1',
    AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true',
    ...env,
    ...(noColor ? {FORCE_COLOR: '0'} : {}),
  }
}

async function exitCodeOf(args: readonly string[]): Promise<number> {
  if (args[0] === '__complete') {
    const {answerShell} = await import('../../src/lib/cli/completion/main.js')
    await answerShell(args.slice(1), new URL('../../oclif.manifest.json', import.meta.url))
    return 0
  }
  const plugin = await sources()
  screen.stdtermwidth = widthOf(process.stdout)
  screen.errtermwidth = widthOf(process.stderr)
  let exitCode: number | undefined
  const {exit} = Exit
  const listeners = process.listeners('warning')
  // What would end the process.
  Exit.exit = ((code = 0) => {
    exitCode ??= code
  }) as typeof exit
  try {
    await run([...args], {root: ROOT, plugins: new Map([[plugin.name, plugin]]), userPlugins: false})
  } catch (error) {
    await handle(error instanceof Error ? error : new Error(String(error)))
  } finally {
    Exit.exit = exit
    // ZAEL_DEBUG makes oclif print warnings.
    settings.debug = false
    for (const added of process.listeners('warning').slice(listeners.length)) process.off('warning', added)
  }
  return exitCode ?? Number(process.exitCode ?? 0)
}

/** As oclif finds it. */
function widthOf({isTTY, columns}: NodeJS.WriteStream): number {
  return Number(process.env.OCLIF_COLUMNS) || (isTTY ? Math.max(40, columns) : 80)
}

let loaded: Promise<Plugin> | undefined

/** zael as oclif knows it from package.json and the manifest, with commands, help and hooks that come from `src`. */
function sources(): Promise<Plugin> {
  loaded ??= loadSources()
  return loaded
}

async function loadSources(): Promise<Plugin> {
  settings.enableAutoTranspile = false
  const pjson = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
  const {helpClass, hooks, ...oclif} = pjson.oclif
  const [help, commandNotFound] = await Promise.all([importSource(helpClass), importSource(hooks.command_not_found)])
  Object.assign(globalThis, {zaelSources: {Help: help, commandNotFound}})
  const shims = {
    helpClass: './test/helpers/oclif/help.js',
    hooks: {command_not_found: './test/helpers/oclif/command-not-found.js'},
  }
  const config = await Config.load({root: ROOT, pjson: {...pjson, oclif: {...oclif, ...shims}}, userPlugins: false})
  const plugin = config.plugins.get(pjson.name) as Plugin
  plugin.findCommand = async (id: string) => {
    const command = (await importSource(`./dist/commands/${id.replaceAll(':', '/')}`)) as {id: string; plugin: Plugin}
    return Object.assign(command, {id, plugin, isESM: true}) as never
  }
  const {commands} = plugin
  // Copies: the help of a command writes into what describes it.
  Object.defineProperty(plugin, 'commands', {get: () => commands.map(command => ({...command}))})
  return plugin
}

/** The default export of the source of a file in `dist`. */
async function importSource(built: string): Promise<unknown> {
  const path = join(ROOT, `${built.replace(/^\.\/dist\//, 'src/').replace(/\.js$/, '')}.ts`)
  return ((await import(/* @vite-ignore */ path)) as {default: unknown}).default
}
