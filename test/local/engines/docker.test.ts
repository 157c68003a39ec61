import {chmod, mkdtemp, readFile, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterEach, beforeEach, describe, expect, it, vi} from 'vitest'
import {findFreePort, startEngine} from '../../../src/lib/local/engines/engine.js'
import {pickEngine} from '../../../src/lib/local/engines/find.js'
import {untilGone} from '../support.js'

let folder = ''

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'zael-test-'))
  vi.stubEnv('PATH', `${folder}:${process.env.PATH}`)
})

afterEach(async () => {
  vi.unstubAllEnvs()
  await rm(folder, {recursive: true})
})

/** Writes a fake docker program, so that these tests do not need Docker: it records its arguments. */
async function writeFakeDocker(inspect: string, serve = ''): Promise<void> {
  const program = `#!/bin/sh\nif [ "$1" = image ]; then\n${inspect}\nexit\nfi\nprintf '%s\\n' "$@" > ${folder}/called\n${serve}\n`
  await writeFile(join(folder, 'docker'), program)
  await chmod(join(folder, 'docker'), 0o755)
}

describe.skipIf(process.platform === 'win32')('the engine in a container (with a fake docker)', () => {
  it('is published on loopback only, with the data folder inside', async () => {
    await writeFakeDocker('echo sha256:0123456789abcdef')
    const {command, version} = await pickEngine('docker')
    const line = command(8123, '/my/data')
    expect(version).toBe('0123456789ab')
    expect(line.slice(0, 4)).toEqual(['docker', 'run', '--rm', '--interactive'])
    expect(line.join(' ')).toContain('--publish 127.0.0.1:8123:8000 --volume /my/data:/data --entrypoint sh ')
    expect(line.slice(-4)).toEqual(['-dbPath', '/data', '-sharedDb', '-disableTelemetry'])
    expect(command(8123, undefined)).toContain('-inMemory')
    expect(command(8123, undefined)).not.toContain('--volume')
  })

  it('shows the output of Docker when it does not start', async () => {
    await writeFakeDocker('echo sha256:0', 'echo "docker: port is already allocated" >&2; exit 125')
    const port = await findFreePort()
    await expect(startEngine({engine: 'docker', port})).rejects.toMatchObject({
      code: 'engine.start-failed',
      message: 'docker ended with code 125 before it was ready; its output:\ndocker: port is already allocated',
    })
    expect((await readFile(join(folder, 'called'), 'utf8')).split('\n')).toContain(`127.0.0.1:${port}:8000`)
  })

  it('exits when its standard input closes', async () => {
    const {command} = await pickWithImage()
    const script = command(8123, undefined)[command(8123, undefined).indexOf('-c') + 1] as string
    // Runs the container's script with a fake server.
    await writeFile(
      join(folder, 'java'),
      `#!/bin/sh\necho $$ > ${folder}/pid\necho "Initializing DynamoDB Local"\nexec sleep 600\n`,
    )
    await chmod(join(folder, 'java'), 0o755)
    const {spawn} = await import('node:child_process')
    const child = spawn('sh', ['-c', script, 'sh', '-inMemory'], {stdio: ['pipe', 'ignore', 'pipe']})
    const output = await new Promise<string>(resolve => child.stderr.once('data', data => resolve(String(data))))
    expect(output).toContain('Initializing DynamoDB Local')
    child.stdin.end()
    await untilGone([child.pid as number, Number(await readFile(join(folder, 'pid'), 'utf8'))])
  })

  it.each([
    {docker: 'without the image', inspect: 'echo "Error: No such image: x" >&2; exit 1', hint: /docker pull amazon/},
    {
      docker: 'that is not running',
      inspect: 'echo "Cannot connect to the Docker daemon" >&2; exit 1',
      hint: /^Start Docker/,
    },
  ])('suggests a fix for Docker $docker', async ({inspect, hint}) => {
    await writeFakeDocker(inspect)
    await expect(pickEngine('docker')).rejects.toMatchObject({
      code: 'engine.missing',
      hint: expect.stringMatching(hint),
    })
  })

  it('suggests a fix when Docker is not installed', async () => {
    vi.stubEnv('PATH', folder)
    await expect(pickEngine('docker')).rejects.toMatchObject({
      code: 'engine.missing',
      hint: 'Install Docker and start it.',
    })
  })

  async function pickWithImage() {
    await writeFakeDocker('echo sha256:0')
    return pickEngine('docker')
  }
})
