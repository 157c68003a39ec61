import {existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {pathToFileURL} from 'node:url'
import {describe, expect, it} from 'vitest'
import {BIN, ROOT, run, spawnZael} from './zael.js'

const HEAVY = /\/node_modules\/(?:@aws-sdk|@smithy|cli-table3|zod|ink|react)\//

/** Sources that the build put into each file of the CLI. */
const bundled: Record<string, readonly string[]> = existsSync(join(ROOT, 'dist', 'chunks'))
  ? JSON.parse(readFileSync(join(ROOT, 'dist', 'chunks', 'contents.json'), 'utf8'))
  : {}

/** The file itself, and the modules that are bundled in it. */
function modulesIn(url: string): string[] {
  const root = pathToFileURL(`${ROOT}/`).href
  const modules = (url.startsWith(root) && bundled[url.slice(root.length)]) || []
  return [url, ...modules.map(path => root + path)]
}

/** Addresses of all modules that a Node run has loaded, by import or by require, from its coverage report. */
async function scriptsLoadedBy(args: readonly string[], env: Record<string, string> = {}): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'zael-scripts-'))
  try {
    const {code, stderr} = await run(process.execPath, args, {env: {...env, NODE_V8_COVERAGE: folder}})
    expect({code, stderr}).toEqual({code: 0, stderr: ''})
    const reports = readdirSync(folder).map(name => JSON.parse(readFileSync(join(folder, name), 'utf8')))
    return reports.flatMap(report => report.result.flatMap((script: {url: string}) => modulesIn(script.url)))
  } finally {
    rmSync(folder, {recursive: true})
  }
}

function builtCommands(): string[] {
  const folder = join(ROOT, 'dist', 'commands')
  const names = readdirSync(folder, {recursive: true, encoding: 'utf8'}).filter(name => name.endsWith('.js'))
  return names.map(name => pathToFileURL(join(folder, name)).href)
}

describe('start-up', () => {
  it('loads no package for zael --help', async () => {
    await spawnZael([]) // fails with a hint when dist is missing
    const scripts = await scriptsLoadedBy([BIN, '--help'])
    expect(scripts.filter(url => url.endsWith('/help/root-help.js')).length).toBeGreaterThan(0)
    expect(scripts.filter(url => url.includes('/node_modules/'))).toEqual([])
  })

  it('loads oclif but no heavy package for the help of a command', async () => {
    const scripts = await scriptsLoadedBy([BIN, 'limits', 'get', '--help'])
    expect(scripts.filter(url => url.includes('/@oclif/core/')).length).toBeGreaterThan(0)
    expect(scripts.filter(url => HEAVY.test(url))).toEqual([])
  })

  it('loads no heavy package when a command file is imported', async () => {
    const commands = builtCommands()
    const imports = commands.map(url => `import ${JSON.stringify(url)};`).join('')
    const scripts = await scriptsLoadedBy(['--input-type=module', '--eval', imports])
    expect(scripts).toEqual(expect.arrayContaining(commands))
    expect(scripts.filter(url => HEAVY.test(url))).toEqual([])
  })

  it('loads few files per command: modules that most commands share are in one', async () => {
    const command = builtCommands().find(url => url.endsWith('/limits/get.js'))
    const scripts = await scriptsLoadedBy(['--input-type=module', '--eval', `import ${JSON.stringify(command)}`])
    const files = new Set(scripts.filter(url => url.startsWith(pathToFileURL(`${ROOT}/dist/`).href)))
    expect(files).toContain(command)
    expect(scripts.some(url => url.endsWith('/src/lib/cli/base/stack-command.ts'))).toBe(true)
    expect(files.size).toBeLessThan(20)
  })

  it('loads yaml only for a settings file', async () => {
    const home = mkdtempSync(join(tmpdir(), 'zael-start-up-'))
    try {
      const scripts = () => scriptsLoadedBy([BIN, 'config', 'show'], {XDG_CONFIG_HOME: home})
      expect((await scripts()).filter(url => HEAVY.test(url) || url.includes('/node_modules/yaml/'))).toEqual([])
      mkdirSync(join(home, 'zael'))
      writeFileSync(join(home, 'zael', 'config.json'), '{"stack": "a"}')
      expect((await scripts()).filter(url => HEAVY.test(url))).toEqual([])
    } finally {
      rmSync(home, {recursive: true})
    }
  })

  it('prints a table to a pipe without the package that draws tables', async () => {
    const scripts = await scriptsLoadedBy([BIN, 'config', 'show'])
    expect(scripts.filter(url => url.endsWith('/text-table.ts'))).toHaveLength(1)
    expect(scripts.filter(url => HEAVY.test(url))).toEqual([])
  })

  it('leaves parts of oclif that no command needs alone, with the modules of Node that only they load', async () => {
    const tell = `process.on('exit', () => console.error(JSON.stringify(process.moduleLoadList)))`
    const preload = `data:text/javascript,${encodeURIComponent(tell)}`
    const {stderr} = await run(process.execPath, ['--import', preload, BIN, 'config', 'show'], {})
    const loaded: string[] = JSON.parse(stderr)
    expect(loaded).toContain('NativeModule crypto')
    const scripts = await scriptsLoadedBy([BIN, 'config', 'show'])
    expect(scripts.filter(url => url.endsWith('/oclif-packages.cjs'))).toEqual([])
    expect(loaded.filter(name => /^NativeModule (?:child_process|perf_hooks|readline)$/.test(name))).toEqual([])
  })

  it('does not sort the commands of the manifest, which would start ICU', () => {
    const files = Object.keys(bundled).filter(name =>
      modulesIn(pathToFileURL(join(ROOT, name)).href).some(url => url.endsWith('/@oclif/core/lib/config/plugin.js')),
    )
    expect(files).toHaveLength(1)
    for (const name of files) expect(readFileSync(join(ROOT, name), 'utf8')).not.toContain('.id.localeCompare(')
  })

  it('does not look for TypeScript, whatever NODE_ENV is', async () => {
    for (const nodeEnv of ['test', 'development']) {
      const scripts = await scriptsLoadedBy([BIN, 'version'], {NODE_ENV: nodeEnv})
      expect(scripts.filter(url => /\/node_modules\/(?:typescript|tsx|ts-node)\//.test(url))).toEqual([])
    }
  })
})

describe('the environment that libraries see', () => {
  const names = [
    'NODE_ENV',
    'FORCE_COLOR',
    'AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED',
    'OCLIF_DISABLE_ENGINE_WARNING',
  ]
  const tell = `process.on('exit', () => console.error(JSON.stringify(${JSON.stringify(names)}.map(name => process.env[name]))))`

  async function seen(env: Record<string, string>, ...flags: string[]) {
    const preload = `data:text/javascript,${encodeURIComponent(tell)}`
    const {stderr} = await run(process.execPath, ['--import', preload, BIN, 'version', ...flags], {env})
    const [nodeEnv, forceColor, awsQuiet, oclifQuiet] = JSON.parse(stderr)
    return {nodeEnv, forceColor, awsQuiet, oclifQuiet}
  }

  it("selects production React, and suppresses the SDK's Node warning", async () => {
    expect(await seen({})).toEqual({nodeEnv: 'production', forceColor: null, awsQuiet: 'true', oclifQuiet: '1'})
    expect(await seen({NODE_ENV: 'test'})).toMatchObject({nodeEnv: 'test'})
  })

  it('turns colours off for libraries that know only FORCE_COLOR', async () => {
    expect(await seen({NO_COLOR: '1'})).toMatchObject({forceColor: '0'})
    expect(await seen({NO_COLOR: ''})).toMatchObject({forceColor: null})
    expect(await seen({FORCE_COLOR: '1'})).toMatchObject({forceColor: '1'})
    expect(await seen({FORCE_COLOR: '1'}, '--no-color')).toMatchObject({forceColor: '0'})
  })
})
