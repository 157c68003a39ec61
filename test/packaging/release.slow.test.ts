import {execFileSync, spawnSync} from 'node:child_process'
import {copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterEach, beforeEach, describe, expect, it} from 'vitest'

const SCRIPT = new URL('../../.ci/release.js', import.meta.url)
const OLDER = '## 0.0.9, 2026-01-01\n\n- An older thing.\n'
const NOTES = '### Added\n- A thing.'
const section = (heading: string) => `# Changelog\n\n## ${heading}\n\n${NOTES}\n\n${OLDER}`

let folder = ''

const git = (...args: string[]) => execFileSync('git', args, {cwd: folder, encoding: 'utf8', stdio: 'pipe'}).trim()
const read = (file: string) => readFileSync(join(folder, file), 'utf8')
const write = (file: string, text: string) => writeFileSync(join(folder, file), text)

function release(...args: string[]) {
  const {status, stdout, stderr} = spawnSync(process.execPath, ['.ci/release.js', ...args], {
    cwd: folder,
    encoding: 'utf8',
  })
  return {status, stdout, stderr}
}

function commit() {
  git('add', '--all')
  git('commit', '--quiet', '--message', 'A change')
}

function commitFile(file: string, text: string) {
  write(file, text)
  commit()
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
  write('CHANGELOG.md', section('0.1.0, initial release'))
  write('built.txt', '0.1.0')
  commit()
})

afterEach(() => rmSync(folder, {recursive: true}))

describe('a release of the version in package.json', () => {
  it('tags the last commit, with the notes of the changelog', () => {
    const before = git('rev-parse', 'HEAD')
    const {status, stdout, stderr} = release()
    expect({status, stderr, last: stdout.trim().split('\n').at(-1)}).toEqual({
      status: 0,
      stderr: '',
      last: '  git push origin HEAD v0.1.0',
    })
    expect(stdout).toContain('checked')
    expect(git('describe', '--exact-match')).toBe('v0.1.0')
    expect(git('rev-parse', 'HEAD')).toBe(before)
    expect(git('tag', '--list', '--format=%(contents)', 'v0.1.0')).toBe(`zael 0.1.0\n\n${NOTES}`)
  })

  it('prints the notes and changes nothing with --dry-run', () => {
    write('.ci/run', 'exit 1')
    commit()
    expect(release('--dry-run')).toEqual({
      status: 0,
      stdout: `Dry run: would run .ci/run and create the tag v0.1.0. Notes:\n\n${NOTES}\n`,
      stderr: '',
    })
    expect(git('tag', '--list')).toBe('')
  })

  it('prints only the notes with --notes, as the workflow needs them', () => {
    expect(release('--notes')).toEqual({status: 0, stdout: `${NOTES}\n`, stderr: ''})
  })
})

it.each([
  ['patch', '0.1.1'],
  ['minor', '0.2.0'],
  ['major', '1.0.0'],
])('sets the version everywhere, dates the changelog, commits and tags for a %s release', (part, version) => {
  commitFile('CHANGELOG.md', section('Unreleased'))
  expect(release(part, '--dry-run')).toMatchObject({
    status: 0,
    stdout: expect.stringContaining(`the tag v${version}, version 0.1.0 → ${version}.`),
  })
  const {status, stderr} = release(part)
  expect({status, stderr}).toEqual({status: 0, stderr: ''})
  expect(JSON.parse(read('package.json')).version).toBe(version)
  expect(JSON.parse(read('package-lock.json'))).toMatchObject({
    version,
    packages: {'': {version}, a: {version: '0.1.0'}},
  })
  expect(read('built.txt')).toBe(version)
  expect(read('CHANGELOG.md')).toMatch(new RegExp(`# Changelog\n\n## ${version}, \\d{4}-\\d\\d-\\d\\d\n\n### Added\n`))
  expect(git('status', '--porcelain')).toBe('')
  expect(git('describe', '--exact-match')).toBe(`v${version}`)
  expect(git('tag', '--list', '--format=%(contents)', `v${version}`)).toBe(`zael ${version}\n\n${NOTES}`)
})

it.each<[string, string[], () => void, string]>([
  ['with an unknown part of the version', ['huge'], () => {}, 'usage: npm run release -- [patch|minor|major]'],
  ['from a tree with changes', [], () => write('new.txt', ''), 'the working tree is not clean'],
  ['when its tag exists', [], () => git('tag', 'v0.1.0'), 'the tag v0.1.0 already exists'],
  [
    'when the changelog starts with another version',
    [],
    () => commitFile('CHANGELOG.md', section('0.2.0')),
    'the first section of CHANGELOG.md is "0.2.0", but must be "0.1.0"',
  ],
  ['when the changelog has no unreleased section', ['patch'], () => {}, 'but must be "Unreleased"'],
  [
    'when the section is empty',
    ['patch'],
    () => commitFile('CHANGELOG.md', `# Changelog\n\n## Unreleased\n\n${OLDER}`),
    'the section "Unreleased" of CHANGELOG.md is empty',
  ],
  [
    'when the lock file has another version',
    [],
    () => commitFile('package-lock.json', JSON.stringify({version: '0.1.0', packages: {'': {version: '0.0.9'}}})),
    'package-lock.json has version 0.0.9',
  ],
  ['when a check fails', [], () => commitFile('.ci/run', 'exit 1'), '"bash .ci/run" failed'],
])('is refused %s, and changes nothing', (_, args, prepare, reason) => {
  prepare()
  const before = [git('status', '--porcelain'), git('tag', '--list')]
  expect(release(...args)).toMatchObject({status: 1, stderr: expect.stringContaining(reason)})
  expect([git('status', '--porcelain'), git('tag', '--list')]).toEqual(before)
  expect(JSON.parse(read('package.json')).version).toBe('0.1.0')
})

it('is refused when the build changes a committed file', () => {
  commitFile('built.txt', 'stale')
  expect(release()).toMatchObject({status: 1, stderr: expect.stringContaining('built.txt')})
  expect(git('tag', '--list')).toBe('')
})
