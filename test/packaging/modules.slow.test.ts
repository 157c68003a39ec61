import {mkdir, mkdtemp, readFile, rm, writeFile} from 'node:fs/promises'
import {join} from 'node:path'
import {build} from 'esbuild'
import {afterAll, beforeAll, describe, expect, it} from 'vitest'
import {ROOT, run} from '../e2e/zael.js'

// These programs are inside the package, so that they find `zael` by its name.
let folder = ''
beforeAll(async () => {
  await mkdir(join(ROOT, '.cache'), {recursive: true})
  folder = await mkdtemp(join(ROOT, '.cache', 'modules-'))
})
afterAll(() => rm(folder, {recursive: true}))

const node = (file: string) => run(process.execPath, [join(folder, file)], {})

async function entryPoints(): Promise<string[]> {
  const {exports} = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
  return Object.keys(exports).map(path => `zael${path.slice(1)}`)
}

describe('CommonJS', () => {
  it('loads every entry point with require, without a warning', async () => {
    const names = await entryPoints()
    await writeFile(join(folder, 'all.cjs'), `for (const name of ${JSON.stringify(names)}) require(name)`)
    expect(await node('all.cjs')).toEqual({code: 0, stdout: '', stderr: ''})
  })

  it('gives require and import the same classes, so that instanceof works', async () => {
    const program = `import('zael').then(({RateLimiter}) => console.log(RateLimiter === require('zael').RateLimiter))`
    await writeFile(join(folder, 'same.cjs'), program)
    expect(await node('same.cjs')).toEqual({code: 0, stdout: 'true\n', stderr: ''})
  })

  it.each([
    ['nodenext', 0],
    ['node20', 0],
    ['node16', 1],
  ])('compiles from TypeScript with module %s: exit code %i', async (module, code) => {
    await writeFile(join(folder, 'main.cts'), `import {RateLimiter} from 'zael'\nexport const limiter = RateLimiter\n`)
    const args = ['--noEmit', '--ignoreConfig', '--skipLibCheck', '--types', 'node', '--module', module]
    const tsc = join(ROOT, 'node_modules/typescript/bin/tsc')
    const outcome = await run(process.execPath, [tsc, ...args, join(folder, 'main.cts')], {})
    expect({code: outcome.code, stdout: outcome.stdout}).toEqual({
      code,
      stdout: code === 0 ? '' : expect.stringContaining('TS1479'),
    })
  })
})

describe('an adapter', () => {
  it('needs no package of its framework at run time; only zael/otel imports its package', async () => {
    const names = (await entryPoints()).filter(name => name !== 'zael/package.json')
    const packages = names.map(async (name): Promise<[string, string[]]> => {
      const {metafile} = await build({
        stdin: {contents: `import '${name}'`, resolveDir: folder},
        bundle: true,
        write: false,
        metafile: true,
        platform: 'node',
        format: 'esm',
        logLevel: 'silent',
        ignoreAnnotations: true,
        plugins: [{name: 'packages', setup: ({onResolve}) => onResolve({filter: /^[^.]/}, keepOutside)}],
      })
      const imported = Object.values(metafile.outputs).flatMap(({imports}) => imports.map(({path}) => path))
      return [name, imported.filter(path => /^(?:@opentelemetry\/|ai$|express$|fastify$|hono$)/.test(path))]
    })
    const used = Object.fromEntries(await Promise.all(packages))
    expect(Object.keys(used).length).toBe(9)
    expect(Object.entries(used).filter(([, found]) => found.length > 0)).toEqual([
      ['zael/otel', ['@opentelemetry/api']],
    ])
  })
})

function keepOutside({path}: {path: string}): {path: string; external: true} | undefined {
  return path.startsWith('zael') ? undefined : {path, external: true}
}

it('lists the optional packages with their versions in docs/modules.md', async () => {
  const page = await readFile(join(ROOT, 'docs/modules.md'), 'utf8')
  const rows = [...page.matchAll(/^\| `zael\/[\w-]+` \| `(.+)` \| `(.+)` \|$/gm)]
  const {peerDependencies} = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
  expect(Object.fromEntries(rows.map(([, name, range]) => [name, range?.replaceAll('\\', '')]))).toEqual(
    peerDependencies,
  )
})
