import {execFile} from 'node:child_process'
import {promisify} from 'node:util'
import {ZaelError} from '../../core/errors.js'
import type {EngineKind, LocatedEngine} from './kind.js'

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
      throw new ZaelError('failed', 'engine.missing', 'Docker is not installed: there is no program `docker` on PATH', {
        hint: 'Install Docker and start it.',
        cause,
      })
    }
    const isImageMissing = /no such image/i.test(stderr)
    throw new ZaelError(
      'failed',
      'engine.missing',
      isImageMissing ? `Docker has no image ${IMAGE}` : `Docker does not answer: ${stderr.trim().split('\n').at(-1)}`,
      {hint: isImageMissing ? `Get it with \`docker pull ${IMAGE}\`.` : 'Start Docker.', cause},
    )
  }
}
