import {spawn} from 'node:child_process'
import {once} from 'node:events'
import {createInterface} from 'node:readline/promises'
import {fileURLToPath} from 'node:url'
import {describe, expect, it} from 'vitest'
import {enginesUnderTest, runningProcesses, untilGone} from '../support.js'

const SCRIPT = fileURLToPath(new URL('../fixtures/run-owned.ts', import.meta.url))

const hasDynoxide = (await enginesUnderTest()).some(({name, isSkipped}) => name === 'dynoxide' && !isSkipped)

// Any program shows it; a JVM would take seconds.
describe.skipIf(process.platform === 'win32').concurrent('an owned process dies with its parent', () => {
  it.each([
    {name: 'sleep', how: 'is killed by SIGKILL', ending: 'hang'},
    {name: 'sleep', how: 'exits without stopping it', ending: 'exit'},
    {name: 'dynoxide', how: 'is killed by SIGKILL', ending: 'hang'},
  ])('$name, when the parent $how', async ({name, ending}) => {
    if (name === 'dynoxide' && !hasDynoxide) return
    const parent = spawn(process.execPath, ['--import', 'tsx', SCRIPT, name, ending], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    const parentGone = once(parent, 'exit')
    const [line] = await once(createInterface(parent.stdout), 'line')
    const pid = Number(line)
    const watchers = runningProcesses().filter(row => row.parentPid === pid)
    expect(runningProcesses()).toContainEqual({pid, parentPid: parent.pid})
    expect(watchers).toHaveLength(1)

    if (ending === 'exit') parent.stdin.end()
    else parent.kill('SIGKILL')
    expect(await parentGone).toEqual(ending === 'exit' ? [0, null] : [null, 'SIGKILL'])
    await untilGone([pid, ...watchers.map(row => row.pid)])
  })
})
