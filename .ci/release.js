// Prepares a release: npm run release -- [patch|minor|major] [--dry-run]
// Without a part, it releases the version in package.json. With one, it raises the version first, and the changelog's section
// "Unreleased" gets the new version and the date. It runs all checks, commits and tags; the tag's message is the changelog
// section. It does not push or publish: .github/workflows/release.yml publishes a pushed tag.
// "node .ci/release.js --notes" prints the changelog section of the version in package.json.
import {spawnSync} from 'node:child_process'
import {readFileSync, writeFileSync} from 'node:fs'
import process from 'node:process'
import {fileURLToPath} from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const PARTS = ['major', 'minor', 'patch']
const UNRELEASED = 'Unreleased'

const args = process.argv.slice(2)
const isDryRun = args.includes('--dry-run')
const parts = args.filter(arg => arg !== '--dry-run')
const [part] = parts
const {version} = JSON.parse(read('package.json'))
const changelog = read('CHANGELOG.md')

if (args.length === 1 && part === '--notes') {
  process.stdout.write(`${notesOf(version)}\n`)
  process.exit()
}
if (parts.length > 1 || (part !== undefined && !PARTS.includes(part)))
  stop('usage: npm run release -- [patch|minor|major] [--dry-run]')

const next = part === undefined ? version : raised(version, PARTS.indexOf(part))
const tag = `v${next}`
const notes = notesOf(part === undefined ? version : UNRELEASED)
if (output('git', 'status', '--porcelain') !== '') stop('the working tree is not clean: commit or remove your changes')
if (output('git', 'tag', '--list', tag) !== '') stop(`the tag ${tag} already exists`)
const locked = JSON.parse(read('package-lock.json'))
for (const found of [locked.version, locked.packages[''].version])
  if (found !== version) stop(`package-lock.json has version ${found}, package.json ${version}: run "npm run lock"`)

if (isDryRun) {
  const raise = part === undefined ? '' : `, version ${version} → ${next}`
  console.log(`Dry run: would run .ci/run and create the tag ${tag}${raise}. Notes:\n\n${notes}`)
  process.exit()
}

run('bash', '.ci/run')
if (part !== undefined) {
  for (const file of ['package.json', 'package-lock.json']) writeVersion(file)
  const today = new Date().toISOString().slice(0, 10)
  write('CHANGELOG.md', changelog.replace(`## ${UNRELEASED}\n`, `## ${next}, ${today}\n`))
}
run('npm', 'run', '--silent', 'build')
if (part !== undefined) run('git', 'commit', '--quiet', '--all', '--message', `Release ${next}`)
const changed = output('git', 'status', '--porcelain')
if (changed !== '')
  stop(`the checks or the build changed files; commit them, then release again:\n${changed.trimEnd()}`)
// Verbatim: git would take the headings of the notes for comments.
output('git', 'tag', '--annotate', '--cleanup=verbatim', '--message', `zael ${next}\n\n${notes}\n`, tag)

console.log(`Tagged ${tag}. To publish:\n  git push origin HEAD ${tag}`)

function raised(current, index) {
  const numbers = current.split('.').map(Number)
  if (numbers.length !== 3 || !numbers.every(Number.isInteger)) stop(`"${current}" is not a version like 1.2.3`)
  return numbers.map((number, i) => (i < index ? number : i === index ? number + 1 : 0)).join('.')
}

/** The text of the changelog's first section, which must be named `name`, "name, date" or "name, words". */
function notesOf(name) {
  const [heading, ...lines] = changelog.split(/^## /m)[1]?.split('\n') ?? []
  const text = lines.join('\n').trim()
  if (heading?.split(', ')[0] !== name)
    stop(`the first section of CHANGELOG.md is "${heading ?? 'missing'}", but must be "${name}"`)
  if (text === '') stop(`the section "${heading}" of CHANGELOG.md is empty`)
  return text
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

function output(program, ...argv) {
  const {status, stdout, stderr, error} = spawnSync(program, argv, {cwd: root, encoding: 'utf8'})
  if (status !== 0) stop(`${program} ${argv[0]} failed: ${error?.message ?? stderr.trim()}`)
  return stdout
}

function run(program, ...argv) {
  const {status} = spawnSync(program, argv, {cwd: root, stdio: 'inherit'})
  if (status !== 0) stop(`"${program} ${argv.join(' ')}" failed. To undo changed files: git checkout .`)
}

function stop(reason) {
  console.error(reason)
  process.exit(1)
}
