import {execFile, spawnSync} from 'node:child_process'
import {randomBytes} from 'node:crypto'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import {tmpdir} from 'node:os'
import {dirname, join} from 'node:path'
import {fileURLToPath} from 'node:url'
import {afterAll, beforeAll, describe, expect, it, type TestContext} from 'vitest'
import {sleepMs} from '../../src/lib/dynamo/retry.js'
import {startEngine} from '../../src/lib/local/engines/engine.js'
import {localTransport} from '../../src/lib/local/engines/transport.js'
import {prepareStack} from '../../src/lib/local/supervisor/prepare.js'
import {brokenLinks, COMPILER_OPTIONS, examplesOf, PRELUDE, RUNNER} from './examples.js'

interface Outcome {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const UNREACHABLE = /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|ETIMEDOUT|ENOTCACHED)\b/

/** Optional peers of the adapters, with their types. */
const FRAMEWORKS = ['hono', 'express', 'fastify', 'ai', 'openai', '@opentelemetry/api']
const ADAPTERS = ['hono', 'express', 'fastify', 'fetch', 'ai-sdk']

/** Dependencies that declare Node 22 and are tested on Node 20 here: docs/decisions/0021. They bring others of the kind. */
const DECLARE_NODE_22 = ['@oclif/core', 'ink']

let folder = ''

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'zael-install-'))
})

afterAll(() => rmSync(folder, {recursive: true}))

function run(program: string, args: readonly string[], cwd: string, env?: NodeJS.ProcessEnv): Promise<Outcome> {
  return new Promise(resolve => {
    execFile(program, args, {cwd, maxBuffer: 1e8, ...(env ? {env} : {})}, (error, stdout, stderr) => {
      resolve({code: error ? Number(error.code ?? 1) : 0, stdout, stderr})
    })
  })
}

/** Runs npm; without a registry the test is skipped, except in CI, where it fails. */
async function npm(context: TestContext, cwd: string, ...args: string[]): Promise<Outcome> {
  const outcome = await run('npm', [...args, '--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund'], cwd)
  if (outcome.code !== 0 && !process.env.CI && UNREACHABLE.test(outcome.stderr)) {
    context.skip('the npm registry cannot be reached')
  }
  return outcome
}

it('installs the packages of package-lock.json with npm ci', async context => {
  const clone = join(folder, 'clone')
  mkdirSync(clone)
  for (const file of ['package.json', 'package-lock.json', '.npmrc']) copyFileSync(join(ROOT, file), join(clone, file))
  const {code, stderr} = await npm(context, clone, 'ci', '--loglevel=error')
  expect({code, stderr: withoutUserConfig(stderr)}).toEqual({code: 0, stderr: ''})
  expect(existsSync(join(clone, 'node_modules/vitest/package.json'))).toBe(true)
})

describe('the package as published', () => {
  const project = () => join(folder, 'project')

  it('installs, and on Node 20 only known packages warn that they declare Node 22', async context => {
    expect(existsSync(join(ROOT, 'dist/commands')), 'dist is missing: run "npm run build" first').toBe(true)
    mkdirSync(project())
    const packed = await npm(context, ROOT, 'pack', '--pack-destination', folder)
    expect(packed.code, packed.stderr).toBe(0)
    const [tarball = ''] = readdirSync(folder).filter(name => name.endsWith('.tgz'))
    const options = ['--prefix', project(), '--loglevel=warn']
    const installed = await npm(context, project(), 'install', ...options, join(folder, tarball))
    expect(installed.code, installed.stderr).toBe(0)

    const warned = new Set([...installed.stderr.matchAll(/EBADENGINE +package: '(.+)@/g)].map(([, name]) => name))
    if (process.versions.node.startsWith('20.')) {
      const {dependencies} = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
      expect(Object.keys(dependencies).filter(name => warned.has(name))).toEqual(DECLARE_NODE_22)
    } else expect([...warned]).toEqual([])
  })

  it('contains the files it needs, and none for development', context => {
    const home = join(project(), 'node_modules/zael')
    if (!existsSync(home)) context.skip('it was not installed')
    expect(readdirSync(home).sort()).toEqual(
      [
        ...[
          'CHANGELOG.md',
          'CONTRIBUTING.md',
          'LICENSE',
          'README.md',
          'SECURITY.md',
          'llms.txt',
          'oclif.manifest.json',
          'package.json',
        ],
        ...['bench', 'bin', 'dist', 'docs', 'templates'],
      ].sort(),
    )
    expect(readdirSync(join(home, 'bin'))).toEqual(['run.js'])
    expect(existsSync(join(project(), 'node_modules/vitest'))).toBe(false)
  })

  it('runs the command, and imports as a library with types', async context => {
    if (!existsSync(join(project(), 'node_modules/zael'))) context.skip('it was not installed')
    const {version} = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
    const zael = spawnSync(process.execPath, ['node_modules/zael/bin/run.js', '--version'], {
      cwd: project(),
      encoding: 'utf8',
    })
    expect(zael).toMatchObject({status: 0, stderr: '', stdout: expect.stringContaining(`zael/${version}`)})
    const library = await run(
      process.execPath,
      ['--input-type=module', '--eval', `import {parseLimit} from 'zael'; console.log(parseLimit('rpm=60/min').name)`],
      project(),
    )
    expect(library).toEqual({code: 0, stdout: 'rpm\n', stderr: ''})
    expect(existsSync(join(project(), 'node_modules/zael/dist/lib/index.d.ts'))).toBe(true)
  })

  it('loads adapters without their frameworks, and installs no framework', async context => {
    if (!existsSync(join(project(), 'node_modules/zael'))) context.skip('it was not installed')
    expect(FRAMEWORKS.filter(name => existsSync(join(project(), 'node_modules', name)))).toEqual([])
    const load = `for (const name of ${JSON.stringify(ADAPTERS)}) console.log(Object.keys(await import('zael/' + name)).sort().join())`
    const loaded = await run(process.execPath, ['--input-type=module', '--eval', load], project())
    const names = [
      ...['hashKey,honoLimiter,leaseOf', 'expressLimiter,hashKey,leaseOf', 'fastifyLimiter,hashKey,leaseOf'],
      ...['hashKey,leaseOf,limitedFetch', 'hashKey,limitedModel'],
    ]
    expect(loaded).toEqual({code: 0, stdout: [...names, ''].join('\n'), stderr: ''})
  })
})

describe('the documentation of the package', () => {
  const project = () => join(folder, 'project')
  const home = () => join(project(), 'node_modules/zael')
  const examples = () => ['README.md', 'docs/library.md'].flatMap(page => examplesOf(home(), page))
  const adapterExamples = () =>
    [
      ...['README', ...ADAPTERS].map(page => `docs/adapters/${page}.md`),
      ...['docs/observing.md', 'docs/provider-limits.md'],
    ].flatMap(page => examplesOf(home(), page))

  beforeAll(() => {
    if (!existsSync(home())) return
    const add = (path: string, text: string) => {
      mkdirSync(dirname(join(project(), path)), {recursive: true})
      writeFileSync(join(project(), path), text)
    }
    for (const [name, text] of Object.entries(RUNNER)) add(`node_modules/vitest/${name}`, text)
    mkdirSync(join(project(), 'node_modules/@types'), {recursive: true})
    symlinkSync(join(ROOT, 'node_modules/@types/node'), join(project(), 'node_modules/@types/node'))
    add('package.json', JSON.stringify({type: 'module'}))
    add('tsconfig.json', JSON.stringify({compilerOptions: COMPILER_OPTIONS, include: ['*.ts']}))
    add('prelude.ts', PRELUDE)
    add('prices.json', JSON.stringify({'gpt-4o': {input_cost_per_token: 2.5e-6, output_cost_per_token: 1e-5}}))
    for (const {name, code} of examples()) add(`${name}.ts`, code)
    add('adapters.ts', ADAPTERS.map((name, at) => `export * as adapter${at} from 'zael/${name}'`).join('\n'))

    // The declarations of the frameworks are not ours to check.
    const options = {...COMPILER_OPTIONS, skipLibCheck: true}
    add('frameworks/tsconfig.json', JSON.stringify({compilerOptions: options, include: ['*.ts']}))
    add('frameworks/prelude.ts', PRELUDE)
    for (const {name, code} of adapterExamples()) add(`frameworks/${name}.ts`, code)
    for (const scope of ['@types', '@opentelemetry'])
      mkdirSync(join(project(), 'frameworks/node_modules', scope), {recursive: true})
    // The only peer that zael itself loads: found from where zael is.
    mkdirSync(join(project(), 'node_modules/@opentelemetry'), {recursive: true})
    symlinkSync(join(ROOT, 'node_modules/@opentelemetry/api'), join(project(), 'node_modules/@opentelemetry/api'))
    for (const name of [...FRAMEWORKS, '@types/express', '@types/node']) {
      symlinkSync(join(ROOT, 'node_modules', name), join(project(), 'frameworks/node_modules', name))
    }
  })

  it('links only to files in the package', context => {
    if (!existsSync(home())) context.skip('it was not installed')
    expect(brokenLinks(home())).toEqual([])
  })

  it('has examples that compile, with the declarations of everything they load', async context => {
    if (!existsSync(home())) context.skip('it was not installed')
    expect(examples().length).toBeGreaterThan(10)
    const compiled = await run(join(ROOT, 'node_modules/.bin/tsc'), ['-p', '.'], project())
    expect(compiled).toMatchObject({code: 0, stdout: ''})
  })

  it('has examples of the adapters that compile with the frameworks', async context => {
    if (!existsSync(home())) context.skip('it was not installed')
    expect(adapterExamples()).toHaveLength(19)
    const compiled = await run(join(ROOT, 'node_modules/.bin/tsc'), ['-p', 'frameworks'], project())
    expect(compiled).toMatchObject({code: 0, stdout: ''})
  })

  it('has examples that run, one after the other, on one stack', async context => {
    if (!existsSync(home())) context.skip('it was not installed')
    const engine = await startEngine()
    const transport = localTransport(engine.endpoint)
    const backoff = {random: Math.random, sleep: sleepMs}
    try {
      await prepareStack({name: 'prod', transport, clock: Date.now, randomBytes, backoff}, '0.0.0')
      const env = {
        PATH: process.env.PATH,
        AWS_ENDPOINT_URL_DYNAMODB: engine.endpoint,
        OPENAI_API_KEY: 'none',
        AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true',
      }
      const programs = [
        ...examples().map(({name}) => `out/${name}.js`),
        ...adapterExamples().map(({name}) => `frameworks/out/${name}.js`),
      ]
      for (const name of programs) {
        const outcome = await run(process.execPath, [name], project(), env)
        expect({name, ...outcome}).toMatchObject({name, code: 0, stderr: ''})
      }
    } finally {
      await transport.close()
      await engine.stop()
    }
  })
})

/** npm complains about settings of the user that it no longer knows; they are not ours. */
function withoutUserConfig(stderr: string): string {
  return stderr.replaceAll(/^npm warn Unknown user config .*\n/gm, '')
}
