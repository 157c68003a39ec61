import {execFileSync, spawnSync} from 'node:child_process'
import {copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterEach, beforeEach, expect, it} from 'vitest'

const SCRIPT = new URL('../../.ci/release.js', import.meta.url)
const CHANGELOG = '# Changelog\n\n## [Unreleased]\n\n### Added\n- A thing.\n\n## [0.1.0] - 2026-01-01\n'

let folder = ''

const git = (...args: string[]) => execFileSync('git', args, {cwd: folder, encoding: 'utf8', stdio: 'pipe'}).trim()
const read = (file: string) => readFileSync(join(folder, file), 'utf8')
const write = (file: string, text: string) => writeFileSync(join(folder, file), text)

function release(part?: string) {
  const {status, stdout, stderr} = spawnSync(process.execPath, ['.ci/release.js', ...(part ? [part] : [])], {
    cwd: folder,
    encoding: 'utf8',
  })
  return {status, stdout, stderr}
}

function commit() {
  git('add', '--all')
  git('commit', '--quiet', '--message', 'A change')
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'zael-release-'))
  git('init', '--quiet')
  git('config', 'user.name', 'Test')
  git('config', 'user.email', 'test@example.com')
  mkdirSync(join(folder, '.ci'))
  copyFileSync(SCRIPT, join(folder, '.ci/release.js'))
  write('.ci/run', 'echo checked')
  const build = `node -e "fs.writeFileSync('built.txt', JSON.parse(fs.readFileSync('package.json')).version)"`
  write('package.json', JSON.stringify({name: 'zael', version: '0.1.0', type: 'module', scripts: {build}}))
  write(
    'package-lock.json',
    JSON.stringify({version: '0.1.0', packages: {'': {version: '0.1.0'}, a: {version: '0.1.0'}}}),
  )
  write('CHANGELOG.md', CHANGELOG)
  write('built.txt', '0.1.0')
  commit()
})

afterEach(() => rmSync(folder, {recursive: true}))

it.each([
  ['patch', '0.1.1'],
  ['minor', '0.2.0'],
  ['major', '1.0.0'],
])('a %s release sets the version everywhere, closes the changelog, commits and tags', (part, version) => {
  const {status, stdout} = release(part)
  expect({status, last: stdout.trim().split('\n').at(-1)}).toEqual({status: 0, last: '  npm publish'})
  expect(stdout).toContain('checked')
  expect(JSON.parse(read('package.json')).version).toBe(version)
  expect(JSON.parse(read('package-lock.json'))).toMatchObject({
    version,
    packages: {'': {version}, a: {version: '0.1.0'}},
  })
  expect(read('built.txt')).toBe(version)
  expect(read('CHANGELOG.md')).toMatch(
    new RegExp(`## \\[Unreleased\\]\n\n## \\[${version}\\] - \\d{4}-\\d\\d-\\d\\d\n\n### Added\n- A thing`),
  )
  expect(git('status', '--porcelain')).toBe('')
  expect(git('describe', '--exact-match')).toBe(`v${version}`)
})

it.each([
  ['without a part of the version', undefined, () => {}, 'usage: npm run release -- patch|minor|major'],
  ['from a tree with changes', 'patch', () => write('new.txt', ''), 'the working tree is not clean'],
  ['when its tag exists', 'patch', () => git('tag', 'v0.1.1'), 'the tag v0.1.1 exists already'],
  [
    'when the changelog says nothing new',
    'patch',
    () => {
      write('CHANGELOG.md', CHANGELOG.replace('### Added\n- A thing.\n', ''))
      commit()
    },
    'CHANGELOG.md says nothing under [Unreleased]',
  ],
  [
    'when a check fails',
    'patch',
    () => {
      write('.ci/run', 'exit 1')
      commit()
    },
    '"bash .ci/run" failed',
  ],
])('is refused %s, and changes nothing', (_, part, prepare, reason) => {
  prepare()
  const before = git('status', '--porcelain')
  expect(release(part)).toMatchObject({status: 1, stderr: expect.stringContaining(reason)})
  expect(git('status', '--porcelain')).toBe(before)
  expect(JSON.parse(read('package.json')).version).toBe('0.1.0')
})
