import {spawn} from 'node:child_process'
import {once} from 'node:events'
import {createInterface} from 'node:readline/promises'
import {fileURLToPath} from 'node:url'
import {describe, it} from 'vitest'
import {enginesUnderTest, runningProcesses, untilGone} from '../support.js'

const SCRIPT = fileURLToPath(new URL('../fixtures/run-owned.ts', import.meta.url))

const hasDynoxide = (await enginesUnderTest()).some(({name, isSkipped}) => name === 'dynoxide' && !isSkipped)

// Any program shows it; a JVM would take seconds.
describe.skipIf(process.platform === 'win32').concurrent('an owned process dies with its parent', () => {
  it.for([
    {name: 'sleep', how: 'is killed by SIGKILL', ending: 'hang'},
    {name: 'sleep', how: 'exits without stopping it', ending: 'exit'},
    {name: 'dynoxide', how: 'is killed by SIGKILL', ending: 'hang'},
  ])('$name, when the parent $how', async ({name, ending}, {expect, onTestFinished, skip}) => {
    if (name === 'dynoxide' && !hasDynoxide) skip('dynoxide does not run here')
    const parent = spawn(process.execPath, ['--import', 'tsx', SCRIPT, name, ending], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    // A parent that survives a failed test would keep the test process waiting for its output.
    onTestFinished(() => void parent.kill('SIGKILL'))
    const parentGone = once(parent, 'exit')
    const [line] = await once(createInterface(parent.stdout), 'line')
    const pid = Number(line)
    expect(runningProcesses()).toContainEqual({pid, parentPid: parent.pid})
    // The shell starts the watcher shortly after it was spawned itself.
    const findWatchers = () => runningProcesses().filter(row => row.parentPid === pid)
    await expect.poll(findWatchers).toHaveLength(1)
    const watchers = findWatchers()

    if (ending === 'exit') parent.stdin.end()
    else parent.kill('SIGKILL')
    expect(await parentGone).toEqual(ending === 'exit' ? [0, null] : [null, 'SIGKILL'])
    await untilGone([pid, ...watchers.map(row => row.pid)])
  })
})
