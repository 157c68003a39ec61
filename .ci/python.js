// Makes a Python environment ready in .cache, unless it is there in the versions asked for, and prints the folder of its
// programs. Several test files may start this at once: one of them installs, the others wait.
//   node .ci/python.js                    the tools of test/aws
//   node .ci/python.js zae-limiter-0.10   a release of the Python client, for test/peer; also zae-limiter-0.17
import {spawnSync} from 'node:child_process'
import {existsSync, mkdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs'
import {join} from 'node:path'
import process from 'node:process'
import {setTimeout as sleep} from 'node:timers/promises'
import {fileURLToPath} from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const [environment] = process.argv.slice(2)
const suffix = environment === undefined ? '' : `-${environment}`
const folder = join(root, '.cache', `python${suffix}`)
const requirements = join(root, '.ci', `python-requirements${suffix}.txt`)
const stamp = join(folder, 'installed.txt')
const lock = join(root, '.cache', `python${suffix}.lock`)
const programs = join(folder, process.platform === 'win32' ? 'Scripts' : 'bin')

const isReady = () => existsSync(stamp) && readFileSync(stamp, 'utf8') === readFileSync(requirements, 'utf8')

if (!existsSync(requirements)) {
  console.error(`"${environment}" is no environment: ${requirements} is missing`)
  process.exit(2)
}
while (!isReady()) {
  if (takeLock()) {
    try {
      install()
    } finally {
      rmSync(lock, {force: true})
    }
  } else await sleep(500)
}
console.log(programs)

function install() {
  run(process.platform === 'win32' ? 'python' : 'python3', '-m', 'venv', folder)
  run(join(programs, 'python'), '-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '-r', requirements)
  writeFileSync(stamp, readFileSync(requirements))
}

/** False while another process that is alive installs. */
function takeLock() {
  mkdirSync(join(root, '.cache'), {recursive: true})
  try {
    writeFileSync(lock, String(process.pid), {flag: 'wx'})
    return true
  } catch (error) {
    if (error.code !== 'EEXIST') throw error
    if (!isAlive(ownerOfLock())) rmSync(lock, {force: true})
    return false
  }
}

/** NaN when the lock has just been released, or is still empty. */
function ownerOfLock() {
  try {
    return Number(readFileSync(lock, 'utf8') || 'NaN')
  } catch {
    return Number.NaN
  }
}

/** A lock without a process id is taken for a live one: its owner is about to write it. */
function isAlive(pid) {
  if (Number.isNaN(pid)) return true
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === 'EPERM'
  }
}

function run(program, ...args) {
  const {status, error, stderr} = spawnSync(program, args, {encoding: 'utf8'})
  if (error || status !== 0) {
    console.error(`${program} ${args.join(' ')}: ${error?.message ?? stderr.trim().split('\n').at(-1)}`)
    rmSync(lock, {force: true})
    process.exit(1)
  }
}
