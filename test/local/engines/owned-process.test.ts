import {spawn} from 'node:child_process'
import {once} from 'node:events'
import {createInterface} from 'node:readline/promises'
import {fileURLToPath} from 'node:url'
import {describe, expect, it} from 'vitest'
import {pickEngine} from '../../../src/lib/local/engines/find.js'
import {findFreePort} from '../../../src/lib/local/engines/free-port.js'
import {enginesUnderTest, runningProcesses, untilGone} from '../support.js'

const SCRIPT = fileURLToPath(new URL('../fixtures/run-engine.ts', import.meta.url))

const engines = await enginesUnderTest()

describe.concurrent.each(engines)('$name dies with its parent', ({name, isSkipped}) => {
  it.skipIf(isSkipped || process.platform === 'win32').each([
    {how: 'is killed by SIGKILL', ending: 'hang'},
    {how: 'exits without stopping it', ending: 'exit'},
  ])('when the parent $how', async ({ending}) => {
    const parent = spawn(process.execPath, ['--import', 'tsx', SCRIPT, name, ending], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    const parentGone = once(parent, 'exit')
    const [line] = await once(createInterface(parent.stdout), 'line')
    const enginePid = Number(line)
    const watchers = runningProcesses().filter(row => row.parentPid === enginePid)
    expect(runningProcesses()).toContainEqual({pid: enginePid, parentPid: parent.pid})
    expect(watchers).toHaveLength(1)

    if (ending === 'exit') parent.stdin.end()
    else parent.kill('SIGKILL')
    const [code, signal] = await parentGone
    expect([code, signal]).toEqual(ending === 'exit' ? [0, null] : [null, 'SIGKILL'])
    await untilGone([enginePid, ...watchers.map(row => row.pid)])
  })
})

it.skipIf(engines.some(each => each.name === 'dynamodb-local' && each.isSkipped))(
  'DynamoDB Local ends when its standard input does, which is the only tether on Windows',
  async () => {
    const {kind, command} = await pickEngine('dynamodb-local')
    const [java = '', ...args] = command(await findFreePort(), undefined)
    const child = spawn(java, args, {stdio: ['pipe', 'ignore', 'pipe']})
    const gone = once(child, 'exit')
    // A JVM may have something to say before that, such as which options it has picked up from the environment.
    for await (const line of createInterface(child.stderr)) if (line.includes(kind.announcement)) break
    child.stderr.resume()
    expect(child.exitCode).toBe(null)
    child.stdin.end()
    expect(await gone).toEqual([0, null])
  },
)
