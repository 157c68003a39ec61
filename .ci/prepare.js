// Makes a bare clone ready to run: installs what the lock file names and builds dist, each only when it is not current.
// Runs before node_modules exists, so Node's own modules are all it has.
import {spawnSync} from 'node:child_process'
import {existsSync, readdirSync, readFileSync, statSync} from 'node:fs'
import {join} from 'node:path'
import process from 'node:process'
import {fileURLToPath} from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const at = (...parts) => join(root, ...parts)

if (!isInstalled()) {
  console.log('prepare: installing the packages of package-lock.json')
  // Not `npm ci`: it fails when the registry lacks an optional package of some other platform. --no-save keeps the lock
  // file as it is; --include=dev keeps the compiler although the shell may say NODE_ENV=production.
  npm('install', '--no-save', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error')
}
if (!isBuilt()) {
  console.log('prepare: building dist')
  npm('run', '--silent', 'build')
}

/** True when every locked package is installed in the locked version; optional ones may be missing on this platform. */
function isInstalled() {
  const hidden = at('node_modules', '.package-lock.json')
  if (!existsSync(hidden)) return false
  const {'': _root, ...locked} = readPackages(at('package-lock.json'))
  const installed = readPackages(hidden)
  const isLocked = path => locked[path] !== undefined
  const isCurrent = ([path, entry]) =>
    installed[path] ? installed[path].integrity === entry.integrity : Boolean(entry.optional)
  return Object.keys(installed).every(isLocked) && Object.entries(locked).every(isCurrent)
}

function readPackages(file) {
  return JSON.parse(readFileSync(file, 'utf8')).packages
}

/** True when everything in dist is younger than everything it is made from. */
function isBuilt() {
  const built = timesBelow(at('dist'))
  if (built.length === 0) return false
  const settings = readdirSync(root).filter(name => name === 'package.json' || /^tsconfig.*\.json$/.test(name))
  const sources = [...timesBelow(at('src')), ...settings.map(name => statSync(at(name)).mtimeMs)]
  return Math.min(...built) >= Math.max(...sources)
}

/** Times of all files and folders below a folder; a folder's own time tells of a deleted file. */
function timesBelow(folder) {
  if (!existsSync(folder)) return []
  const below = readdirSync(folder, {recursive: true}).map(name => statSync(join(folder, name)).mtimeMs)
  return [statSync(folder).mtimeMs, ...below]
}

function npm(...args) {
  const own = process.env.npm_execpath // the npm that called this script
  const {status, error} = own
    ? spawnSync(process.execPath, [own, ...args], {cwd: root, stdio: 'inherit'})
    : spawnSync('npm', args, {cwd: root, stdio: 'inherit', shell: process.platform === 'win32'})
  if (error) throw error
  if (status !== 0) process.exit(status ?? 1)
}
