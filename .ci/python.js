// Makes a Python environment ready in .cache, unless it is there in the versions asked for, and prints the folder of its
// programs. Several test files may start this at once: one of them installs, the others wait.
//   node .ci/python.js                    the tools of test/aws, and what the Python client depends on
//   node .ci/python.js zae-limiter-0.10   a release of the Python client, for test/peer; also zae-limiter-0.17, and
//                                         zae-limiter-0.4 and -0.5 for test/migrate/releases
//   node .ci/python.js ministack          an emulator of AWS, for test/aws/ministack
//   node .ci/python.js litellm            LiteLLM's list of models and prices, for test/adapters/litellm
// These are installed alone and find the rest in the first environment: all run on the same versions, and to look them up
// again would take pip most of its time.
import {spawnSync} from 'node:child_process'
import {existsSync, mkdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs'
import {join} from 'node:path'
import process from 'node:process'
import {setTimeout as sleep} from 'node:timers/promises'
import {fileURLToPath} from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const [environment] = process.argv.slice(2)
const python = process.platform === 'win32' ? 'python' : 'python3'
const shared = environmentOf('tools', 'python-requirements.txt')
const wanted = environment === undefined ? shared : environmentOf(environment, `python-requirements-${environment}.txt`)

if (!existsSync(wanted.requirements)) {
  console.error(`"${environment}" is no environment: ${wanted.requirements} is missing`)
  process.exit(2)
}
try {
  await makeReady(shared, () => {
    run(python, '-m', 'venv', shared.folder)
    pip(shared)
  })
  if (wanted !== shared) {
    await makeReady(wanted, () => {
      run(python, '-m', 'venv', '--without-pip', wanted.folder)
      pip(wanted, '--no-deps')
      writeFileSync(join(packagesOf(wanted), 'shared.pth'), `${packagesOf(shared)}\n`)
    })
  }
  console.log(wanted.programs)
} catch (error) {
  console.error(error.message)
  process.exitCode = 1
}

function environmentOf(name, requirements) {
  const folder = join(root, '.cache', `venv-${name}`)
  return {
    folder,
    requirements: join(root, '.ci', requirements),
    stamp: join(folder, 'installed.txt'),
    lock: `${folder}.lock`,
    programs: join(folder, process.platform === 'win32' ? 'Scripts' : 'bin'),
  }
}

async function makeReady({folder, requirements, stamp, lock}, install) {
  const isReady = () => existsSync(stamp) && readFileSync(stamp, 'utf8') === readFileSync(requirements, 'utf8')
  while (!isReady()) {
    if (takeLock(lock)) {
      try {
        rmSync(folder, {recursive: true, force: true})
        install()
        writeFileSync(stamp, readFileSync(requirements))
      } finally {
        rmSync(lock, {force: true})
      }
    } else await sleep(500)
  }
}

/**
 * Installs the requirements of an environment with the pip of the shared one. Modules are compiled when they are first
 * imported: most of them never are, and compiling all of them takes as long as the rest.
 */
function pip({programs, requirements}, ...options) {
  const target = ['--python', join(programs, 'python')]
  const quiet = ['--quiet', '--disable-pip-version-check', '--no-compile']
  run(join(shared.programs, 'python'), '-m', 'pip', ...target, 'install', ...quiet, ...options, '-r', requirements)
}

/** The folder that Python imports an environment's packages from. */
function packagesOf({programs}) {
  const ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
  return run(join(programs, 'python'), '-c', ask).trim()
}

/** False while another process that is alive installs. */
function takeLock(lock) {
  mkdirSync(join(root, '.cache'), {recursive: true})
  try {
    writeFileSync(lock, String(process.pid), {flag: 'wx'})
    return true
  } catch (error) {
    if (error.code !== 'EEXIST') throw error
    if (!isAlive(ownerOfLock(lock))) rmSync(lock, {force: true})
    return false
  }
}

/** NaN when the lock has just been released, or is still empty. */
function ownerOfLock(lock) {
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

/** What a program prints. */
function run(program, ...args) {
  const {status, error, stdout, stderr} = spawnSync(program, args, {encoding: 'utf8'})
  if (!error && status === 0) return stdout
  throw new Error(`${program} ${args.join(' ')}: ${error?.message ?? stderr.trim().split('\n').at(-1)}`)
}
