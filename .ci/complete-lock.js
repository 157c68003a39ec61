// Completes package-lock.json with the packages of other platforms that npm left out, so that `npm ci` accepts the file.
// npm omits an optional package when the registry does not offer it at the time of `npm install`, and `npm ci` then refuses
// the lock file on every machine. With --check only says whether the file is complete; --forget takes out what was added, so
// that npm looks for it again. Needs no network and no node_modules.
import {readFileSync, writeFileSync} from 'node:fs'
import process from 'node:process'
import {fileURLToPath} from 'node:url'

const SYSTEMS = 'aix android darwin freebsd linux netbsd openbsd openharmony sunos win32'.split(' ')
const PROCESSORS = 'arm arm64 ia32 loong64 mips64el ppc64 riscv64 s390x wasm32 x64'.split(' ')
const C_LIBRARIES = {gnu: 'glibc', musl: 'musl'}

const args = process.argv.slice(2)
const file = args.find(arg => !arg.startsWith('--')) ?? fileURLToPath(new URL('../package-lock.json', import.meta.url))
const text = readFileSync(file, 'utf8')
const lock = JSON.parse(text)
if (args.includes('--forget')) {
  forgetAdded(lock)
  write()
} else {
  const added = completeLock(lock)
  if (!args.includes('--check')) {
    write()
    if (added.length > 0) console.log(`package-lock.json: added ${added.length} packages of other platforms`)
  } else if (added.length > 0) {
    console.error(`package-lock.json lacks ${added.length} packages of other platforms, ${added[0]} among them`)
    console.error('run "npm run lock" and commit the file')
    process.exitCode = 1
  }
}

/** Adds the missing optional packages to a parsed lock file; returns the paths it added. */
function completeLock(lock) {
  const added = []
  for (const [path, entry] of Object.entries(lock.packages)) {
    for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
      const found = findLocked(lock.packages, path, name)
      if (found !== undefined && (!isExact(version) || found.version === version)) continue
      const place = found === undefined ? `node_modules/${name}` : below(path, name)
      lock.packages[place] = platformEntry(name, version, entry)
      added.push(place)
    }
  }
  // npm's own order, so that its next run changes nothing.
  lock.packages = Object.fromEntries(Object.entries(lock.packages).sort(([a], [b]) => a.localeCompare(b, 'en')))
  return added
}

/** Removes what `completeLock` added: npm's own entries have a checksum. */
function forgetAdded(lock) {
  const isKept = ([path, entry]) => path === '' || entry.integrity !== undefined || !entry.optional
  lock.packages = Object.fromEntries(Object.entries(lock.packages).filter(isKept))
}

/** The entry that a package gets for a dependency: from its own node_modules, or from one further up. */
function findLocked(packages, from, name) {
  for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf('/node_modules/')))) {
    const found = packages[below(folder, name)]
    if (found !== undefined || folder === '') return found
  }
}

function below(folder, name) {
  return folder === '' ? `node_modules/${name}` : `${folder}/node_modules/${name}`
}

function isExact(version) {
  return /^\d+\.\d+\.\d+$/.test(version)
}

/** A lock entry without address and checksum: npm looks both up on a machine of that platform. */
function platformEntry(name, version, dependent) {
  if (!isExact(version)) throw new Error(`${name}: "${version}" is not an exact version`)
  const words = name.split('/').at(-1).split('-')
  const os = words.find(word => SYSTEMS.includes(word))
  const cpu = words.find(word => PROCESSORS.includes(word))
  const libc = C_LIBRARIES[words.at(-1)]
  // An entry without a platform would be installed everywhere, and fail where the registry does not have it.
  if (cpu === undefined || (os === undefined && cpu !== 'wasm32')) throw new Error(`${name} names no known platform`)
  return {
    version,
    cpu: [cpu],
    ...(dependent.dev && {dev: true}),
    ...(os === 'linux' && libc && {libc: [libc]}),
    optional: true,
    ...(os && {os: [os]}),
    ...(dependent.peer && {peer: true}),
  }
}

function write() {
  const fresh = `${JSON.stringify(lock, null, 2)}\n`
  if (fresh !== text) writeFileSync(file, fresh)
}
