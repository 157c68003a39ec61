import {mkdir, mkdtemp, readdir, rm, writeFile} from 'node:fs/promises'
import {join, relative} from 'node:path'
import {gzipSync} from 'node:zlib'
import {type BuildOptions, build} from 'esbuild'
import {afterAll, beforeAll, expect, inject, it} from 'vitest'
import {Namespaces} from '../../src/lib/repository/namespaces/namespaces.js'
import {ROOT, run} from '../e2e/zael.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnEngine, useTable} from '../helpers/table.js'

// Inside the package, so that the programs find `zael` by its name.
let folder = ''
beforeAll(async () => {
  await mkdir(join(ROOT, '.cache'), {recursive: true})
  folder = await mkdtemp(join(ROOT, '.cache', 'bundles-'))
})
afterAll(() => rm(folder, {recursive: true}))

const node = (file: string, env: Record<string, string>) => run(process.execPath, [join(folder, file)], {env})

const bundle = (contents: string, options: BuildOptions) =>
  build({stdin: {contents, resolveDir: folder}, bundle: true, write: false, logLevel: 'silent', ...options})

describeOnEngine('a bundle', () => {
  const table = useTable()
  beforeAll(async () => {
    await new Namespaces(new Scene(table).tenant).register('default')
    const program = `import {RateLimiter} from 'zael'
async function main() {
  const limiter = new RateLimiter({stack: process.env.ZAEL_STACK, defaultLimits: ['rpm=60/day']})
  const lease = await limiter.acquire({entity: 'user-1', resource: 'gpt-4', consume: {rpm: 1}})
  console.log(lease.resource)
  await limiter.close()
}
main()
`
    await writeFile(join(folder, 'main.mjs'), program)
  })

  const environment = () => ({
    ZAEL_STACK: table.name,
    AWS_ENDPOINT_URL_DYNAMODB: inject('engineEndpoint'),
    AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true',
  })

  const BANNER = `import {createRequire} from 'node:module'; const require = createRequire(import.meta.url)`
  it.each<[string, string, BuildOptions]>([
    ['as CommonJS', 'bundle.cjs', {format: 'cjs'}],
    ['as ESM with a require function', 'bundle.mjs', {format: 'esm', banner: {js: BANNER}}],
    ['as ESM with packages kept outside', 'external.mjs', {format: 'esm', packages: 'external'}],
  ])('limits requests when built with esbuild %s', async (_, file, options) => {
    const {warnings} = await build({
      entryPoints: [join(folder, 'main.mjs')],
      outfile: join(folder, file),
      bundle: true,
      platform: 'node',
      target: 'node20',
      minify: true,
      logLevel: 'silent',
      ...options,
    })
    expect(warnings).toEqual([])
    expect(await node(file, environment())).toEqual({code: 0, stdout: 'gpt-4\n', stderr: ''})
  })

  it('fails as ESM of esbuild without a require function once it needs the SDK, as docs/modules.md says', async () => {
    const outfile = join(folder, 'bare.mjs')
    await build({
      entryPoints: [join(folder, 'main.mjs')],
      outfile,
      bundle: true,
      platform: 'node',
      format: 'esm',
      logLevel: 'silent',
    })
    expect(await node('bare.mjs', {...environment(), AWS_PROFILE: 'one'})).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('Dynamic require of "node:https" is not supported'),
    })
  })

  it.each([
    ['with zael inside', true],
    ['with zael outside', false],
  ])('limits requests when built with Vite for SSR, %s', async (_, isInside) => {
    const ssr = isInside ? {noExternal: true} : {external: ['zael']}
    const config = {logLevel: 'warn', build: {ssr: 'main.mjs', outDir: `vite-${isInside}`}, ssr}
    await writeFile(join(folder, 'vite.config.mjs'), `export default ${JSON.stringify(config)}`)
    const built = await run(process.execPath, [join(ROOT, 'node_modules/vite/bin/vite.js'), 'build'], {cwd: folder})
    expect(built).toEqual({code: 0, stdout: '', stderr: ''})
    const [file = ''] = (await readdir(join(folder, config.build.outDir))).filter(name => name.startsWith('main.'))
    expect(await node(join(config.build.outDir, file), environment())).toEqual({
      code: 0,
      stdout: 'gpt-4\n',
      stderr: '',
    })
  })
})

it('loads little for the first call in a bundle with chunks, as docs/lambda.md says', async () => {
  const {outputFiles, metafile} = await build({
    stdin: {contents: `import {RateLimiter} from 'zael'; console.log(RateLimiter)`, resolveDir: folder},
    outdir: folder,
    bundle: true,
    splitting: true,
    minify: true,
    write: false,
    metafile: true,
    platform: 'node',
    target: 'node20',
    format: 'esm',
    mainFields: ['module', 'main'],
    absWorkingDir: ROOT,
  })
  const {outputs} = metafile
  const named = Object.keys(outputs)
  const loaded = new Set(named.filter(file => outputs[file]?.entryPoint === '<stdin>'))
  expect(loaded.size).toBe(1)
  for (const file of loaded) {
    for (const {path, kind} of outputs[file]?.imports ?? []) {
      // Of the modules on demand, all but the SDK.
      const isSdk = outputs[path]?.entryPoint?.includes('@aws-sdk') ?? true
      if (kind === 'import-statement' ? path in outputs : !isSdk) loaded.add(path)
    }
  }
  const files = outputFiles.filter(({path}) => loaded.has(relative(ROOT, path)))
  expect(files).toHaveLength(loaded.size)
  const bytes = (contents: (file: (typeof files)[number]) => Uint8Array) =>
    files.reduce((sum, file) => sum + contents(file).length, 0)
  expect(bytes(({contents}) => contents)).toBeLessThanOrEqual(314_000)
  expect(bytes(({contents}) => gzipSync(contents))).toBeLessThanOrEqual(112_000)
})

it('fails for zael/testing as CommonJS: it finds its engine by import.meta.url', async () => {
  const {warnings} = await bundle(`export * from 'zael/testing'`, {platform: 'node', format: 'cjs'})
  expect(new Set(warnings.map(({id}) => id))).toEqual(new Set(['empty-import-meta']))
})

it('fails for a browser, because zael needs modules of Node', async () => {
  await expect(bundle(`export * from 'zael'`, {platform: 'browser', format: 'esm'})).rejects.toThrow(
    'Could not resolve "node:crypto"',
  )
})
