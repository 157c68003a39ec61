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
  statSync,
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
import {Repository} from '../../src/lib/repository/repository.js'
import {COMPILER_OPTIONS, examplesOf, PRELUDE, RUNNER} from './examples.js'

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

/** Ceilings of the package, compressed, and of an installation with its dependencies. */
const MOST = {files: 300, packedMB: 1.5, packages: 45, installedMB: 35, withoutEngineMB: 28}

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

  it('is small', async context => {
    expect(existsSync(join(ROOT, 'dist/commands')), 'dist is missing: run "npm run build" first').toBe(true)
    const packed = await npm(context, ROOT, 'pack', '--json', '--pack-destination', folder)
    expect(packed.code, packed.stderr).toBe(0)
    const [{entryCount, size}] = JSON.parse(packed.stdout)
    expect(entryCount).toBeLessThanOrEqual(MOST.files)
    expect(size / 1e6).toBeLessThanOrEqual(MOST.packedMB)
  })

  it('installs few packages, without a warning about the version of Node', async context => {
    mkdirSync(project())
    const [tarball = ''] = readdirSync(folder).filter(name => name.endsWith('.tgz'))
    const options = ['--prefix', project(), '--loglevel=warn']
    const installed = await npm(context, project(), 'install', ...options, join(folder, tarball))
    expect({code: installed.code, stderr: withoutUserConfig(installed.stderr)}).toEqual({code: 0, stderr: ''})

    const modules = join(project(), 'node_modules')
    const {packages} = JSON.parse(readFileSync(join(modules, '.package-lock.json'), 'utf8'))
    const present = Object.keys(packages).filter(path => existsSync(join(project(), path)))
    expect(present.length).toBeLessThanOrEqual(MOST.packages)
    expect(megabytesBelow(modules)).toBeLessThanOrEqual(MOST.installedMB)
    expect(megabytesBelow(modules, '@dynoxide')).toBeLessThanOrEqual(MOST.withoutEngineMB)
  })

  it('contains the licences of all packages in its bundles', context => {
    const home = join(project(), 'node_modules/zael')
    if (!existsSync(home)) context.skip('it was not installed')
    const notices = readFileSync(join(home, 'dist/THIRD-PARTY-NOTICES'), 'utf8')
    const named = new Set([...notices.matchAll(/^(\S+) \d\S+ \(.+\)$/gm)].map(([, name]) => name))
    const bundles = ['chunks', 'lib', 'lambda'].flatMap(each => {
      const contents = JSON.parse(readFileSync(join(ROOT, 'dist', each, 'contents.json'), 'utf8'))
      return Object.values<string[]>(contents).flat()
    })
    const used = bundles.flatMap(file => /^.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[1] ?? [])
    expect(new Set(used)).toEqual(named)
    expect(named.size).toBeGreaterThan(50)
    expect(
      notices.match(/Permission is hereby granted|Apache License|Redistribution and use/gi)?.length,
    ).toBeGreaterThan(20)
  })

  it('contains the files it needs, and none for development', context => {
    const home = join(project(), 'node_modules/zael')
    if (!existsSync(home)) context.skip('it was not installed')
    expect(readdirSync(home).sort()).toEqual(
      [
        ...['CHANGELOG.md', 'LICENSE', 'README.md', 'oclif.manifest.json', 'package.json'],
        ...['bin', 'dist', 'templates'],
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

describe('the documentation', () => {
  const project = () => join(folder, 'project')
  const home = () => join(project(), 'node_modules/zael')
  const examples = () => ['README.md', 'docs/library.md'].flatMap(page => examplesOf(ROOT, page))
  const adapterExamples = () =>
    [
      ...['README', ...ADAPTERS].map(page => `docs/adapters/${page}.md`),
      ...['docs/observing.md', 'docs/provider-limits.md'],
    ].flatMap(page => examplesOf(ROOT, page))

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
      const namespace = await new Repository({stack: 'prod', transport}).namespace()
      await namespace.setLimits({level: 'resource', resource: 'llm'}, ['usd=$500/month@UTC'])
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

function megabytesBelow(folder: string, except?: string): number {
  const files = readdirSync(folder, {recursive: true, withFileTypes: true}).filter(entry => entry.isFile())
  const counted = files.filter(({parentPath}) => except === undefined || !parentPath.includes(except))
  return counted.reduce((sum, {parentPath, name}) => sum + statSync(join(parentPath, name)).size, 0) / 1e6
}

/** npm complains about settings of the user that it no longer knows; they are not ours. */
function withoutUserConfig(stderr: string): string {
  return stderr.replaceAll(/^npm warn Unknown (?:user|env) config .*\n/gm, '')
}
