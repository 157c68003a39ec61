// Prepares a release: npm run release -- patch|minor|major
// Runs all checks, then sets the version, closes the changelog's section, rebuilds what carries the version, commits and
// tags. Pushes and publishes nothing; it prints the commands that do.
import {spawnSync} from 'node:child_process'
import {readFileSync, writeFileSync} from 'node:fs'
import process from 'node:process'
import {fileURLToPath} from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const UNRELEASED = '## [Unreleased]\n'

const part = ['major', 'minor', 'patch'].indexOf(process.argv[2])
if (part < 0) stop('usage: npm run release -- patch|minor|major')

const {version} = JSON.parse(read('package.json'))
const next = nextVersion(version, part)
const changelog = read('CHANGELOG.md')
if (output('git', 'status', '--porcelain') !== '')
  stop('commit or remove your changes first: the working tree is not clean')
if (output('git', 'tag', '--list', `v${next}`) !== '') stop(`the tag v${next} exists already`)
if (sectionOf(changelog).trim() === '') stop('CHANGELOG.md says nothing under [Unreleased]')

run('bash', '.ci/run')

for (const file of ['package.json', 'package-lock.json']) writeVersion(file)
const today = new Date().toISOString().slice(0, 10)
write('CHANGELOG.md', changelog.replace(UNRELEASED, `${UNRELEASED}\n## [${next}] - ${today}\n`))
run('npm', 'run', '--silent', 'build')
run('git', 'commit', '--quiet', '--all', '--message', `Release ${next}`)
run('git', 'tag', '--annotate', '--message', `zael ${next}`, `v${next}`)

console.log(`zael ${next} is committed and tagged. Next:\n  git push --follow-tags\n  npm publish`)

function nextVersion(current, index) {
  const numbers = current.split('.').map(Number)
  if (numbers.length !== 3 || !numbers.every(Number.isInteger)) stop(`"${current}" is not a version like 1.2.3`)
  return numbers.map((number, i) => (i < index ? number : i === index ? number + 1 : 0)).join('.')
}

/** What the changelog says under [Unreleased], up to the next release. */
function sectionOf(text) {
  const begin = text.indexOf(UNRELEASED)
  if (begin < 0) stop('CHANGELOG.md has no section [Unreleased]')
  return text.slice(begin + UNRELEASED.length).split('\n## ')[0]
}

/** The lock file has the version twice: of the file, and of its root package. */
function writeVersion(file) {
  const json = JSON.parse(read(file))
  json.version = next
  if (json.packages) json.packages[''].version = next
  write(file, `${JSON.stringify(json, null, 2)}\n`)
}

function read(file) {
  return readFileSync(`${root}/${file}`, 'utf8')
}

function write(file, text) {
  writeFileSync(`${root}/${file}`, text)
}

function output(program, ...args) {
  const {status, stdout, stderr, error} = spawnSync(program, args, {cwd: root, encoding: 'utf8'})
  if (status !== 0) stop(`${program} ${args.join(' ')}: ${error?.message ?? stderr.trim()}`)
  return stdout
}

function run(program, ...args) {
  const {status} = spawnSync(program, args, {cwd: root, stdio: 'inherit'})
  if (status !== 0) stop(`"${program} ${args.join(' ')}" failed; "git checkout ." undoes what was changed`)
}

function stop(reason) {
  console.error(reason)
  process.exit(1)
}
