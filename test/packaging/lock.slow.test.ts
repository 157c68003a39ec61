import {spawnSync} from 'node:child_process'
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {fileURLToPath} from 'node:url'
import {afterEach, beforeEach, describe, expect, it} from 'vitest'

interface LockEntry {
  readonly version?: string
  readonly resolved?: string
  readonly optionalDependencies?: Readonly<Record<string, string>>
  readonly [field: string]: unknown
}

const SCRIPT = fileURLToPath(new URL('../../.ci/complete-lock.js', import.meta.url))
const LOCK = fileURLToPath(new URL('../../package-lock.json', import.meta.url))

function completeLock(...args: string[]) {
  const {status, stdout, stderr} = spawnSync(process.execPath, [SCRIPT, ...args], {encoding: 'utf8'})
  return {status, stdout, stderr}
}

describe('package-lock.json', () => {
  const {packages} = JSON.parse(readFileSync(LOCK, 'utf8')) as {packages: Record<string, LockEntry>}

  it('names the optional packages of every platform, as npm ci demands', () => {
    expect(completeLock('--check')).toEqual({status: 0, stdout: '', stderr: ''})
  })

  it('contains no addresses: the machine chooses the registry', () => {
    expect(Object.keys(packages).filter(path => packages[path]?.resolved !== undefined)).toEqual([])
  })

  it('has the name, version and dependencies of package.json', () => {
    const {name, version, dependencies, devDependencies, optionalDependencies} = JSON.parse(
      readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
    )
    expect(packages['']).toMatchObject({name, version, dependencies, devDependencies, optionalDependencies})
  })
})

describe('completing a lock file', () => {
  let folder = ''
  let file = ''

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'zael-lock-'))
    file = join(folder, 'package-lock.json')
  })

  afterEach(() => rmSync(folder, {recursive: true}))

  const write = (packages: Record<string, LockEntry>) => writeFileSync(file, `${JSON.stringify({packages}, null, 2)}\n`)
  const read = () => JSON.parse(readFileSync(file, 'utf8')).packages as Record<string, LockEntry>

  it('adds missing packages once, with the platform from their name', () => {
    const names = [
      'tool-darwin-arm64',
      '@tool/linux-x64-gnu',
      '@tool/linux-arm64-musl',
      '@tool/win32-x64-msvc',
      '@tool/wasm32-wasi',
    ]
    const tool = {
      version: '1.0.0',
      dev: true,
      optionalDependencies: Object.fromEntries(names.map(name => [name, '1.0.0'])),
    }
    write({'node_modules/tool': tool, 'node_modules/@tool/linux-x64-gnu': {version: '1.0.0', integrity: 'sha512-…'}})

    expect(completeLock('--check', file)).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('lacks 4 packages'),
    })
    expect(completeLock(file)).toMatchObject({status: 0, stderr: ''})
    const common = {version: '1.0.0', dev: true, optional: true}
    expect(read()).toEqual({
      'node_modules/@tool/linux-arm64-musl': {...common, os: ['linux'], cpu: ['arm64'], libc: ['musl']},
      'node_modules/@tool/linux-x64-gnu': {version: '1.0.0', integrity: 'sha512-…'},
      'node_modules/@tool/wasm32-wasi': {...common, cpu: ['wasm32']},
      'node_modules/@tool/win32-x64-msvc': {...common, os: ['win32'], cpu: ['x64']},
      'node_modules/tool': tool,
      'node_modules/tool-darwin-arm64': {...common, os: ['darwin'], cpu: ['arm64']},
    })

    const complete = readFileSync(file, 'utf8')
    expect(completeLock('--check', file).status).toBe(0)
    expect(completeLock(file)).toEqual({status: 0, stdout: '', stderr: ''})
    expect(readFileSync(file, 'utf8')).toBe(complete)

    expect(completeLock('--forget', file)).toEqual({status: 0, stdout: '', stderr: ''})
    expect(Object.keys(read())).toEqual(['node_modules/@tool/linux-x64-gnu', 'node_modules/tool'])
  })

  it('puts a second version beside the package that needs it', () => {
    write({
      'node_modules/old-tool': {version: '1.0.0', optionalDependencies: {'tool-linux-x64': '1.0.0'}},
      'node_modules/tool-linux-x64': {version: '2.0.0'},
    })
    completeLock(file)
    expect(read()['node_modules/old-tool/node_modules/tool-linux-x64']).toMatchObject({version: '1.0.0'})
  })

  it('refuses a name without a platform, and a version range', () => {
    write({'node_modules/tool': {optionalDependencies: {extras: '1.0.0'}}})
    expect(completeLock(file)).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('extras names no known platform'),
    })
    write({'node_modules/tool': {optionalDependencies: {'tool-linux-x64': '^1.0.0'}}})
    expect(completeLock(file)).toMatchObject({status: 1, stderr: expect.stringContaining('is not an exact version')})
  })
})
