import {execFile, spawnSync} from 'node:child_process'
import {copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync} from 'node:fs'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {fileURLToPath} from 'node:url'
import {afterAll, beforeAll, describe, expect, it, type TestContext} from 'vitest'

interface Outcome {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const UNREACHABLE = /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|ETIMEDOUT|ENOTCACHED)\b/

/** Dependencies that declare Node 22 and are tested on Node 20 here: docs/decisions/0021. They bring others of the kind. */
const DECLARE_NODE_22 = ['@oclif/core', 'ink']

let folder = ''

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'zael-install-'))
})

afterAll(() => rmSync(folder, {recursive: true}))

function run(program: string, args: readonly string[], cwd: string): Promise<Outcome> {
  return new Promise(resolve => {
    execFile(program, args, {cwd, maxBuffer: 1e8}, (error, stdout, stderr) => {
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

it('npm ci installs what package-lock.json names', async context => {
  const clone = join(folder, 'clone')
  mkdirSync(clone)
  for (const file of ['package.json', 'package-lock.json', '.npmrc']) copyFileSync(join(ROOT, file), join(clone, file))
  const {code, stderr} = await npm(context, clone, 'ci', '--loglevel=error')
  expect({code, stderr: withoutUserConfig(stderr)}).toEqual({code: 0, stderr: ''})
  expect(existsSync(join(clone, 'node_modules/vitest/package.json'))).toBe(true)
})

describe('the package as published', () => {
  const project = () => join(folder, 'project')

  it('installs; on Node 20 npm warns of the dependencies that are known to declare Node 22', async context => {
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

  it('holds what it runs on, and nothing that is for development', context => {
    const home = join(project(), 'node_modules/zael')
    if (!existsSync(home)) context.skip('it was not installed')
    expect(readdirSync(home).sort()).toEqual(
      [
        ...['CHANGELOG.md', 'LICENSE', 'README.md', 'SECURITY.md', 'llms.txt', 'oclif.manifest.json', 'package.json'],
        ...['bin', 'dist', 'docs', 'templates'],
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
})

/** npm complains about settings of the user that it no longer knows; they are not ours. */
function withoutUserConfig(stderr: string): string {
  return stderr.replaceAll(/^npm warn Unknown user config .*\n/gm, '')
}
