import {type ChildProcess, spawn} from 'node:child_process'
import {once} from 'node:events'
import {createInterface} from 'node:readline'
import {fileURLToPath} from 'node:url'
import {afterEach, beforeEach, expect, inject, it} from 'vitest'
import {Scene} from '../helpers/limiter.js'
import {describeOnEngine, useTable} from '../helpers/table.js'

const PROGRAM = fileURLToPath(new URL('fixtures/settling-process.ts', import.meta.url))

const SIZE = process.env.ZAEL_TEST_SIZE === 'full' ? {requests: 5000, kills: 20} : {requests: 300, kills: 4}

/** The last report of a process, in whole tokens. */
interface Report {
  readonly settled: number
  readonly asked: number
  readonly unwritten: {readonly charges: number; readonly returns: number}
  readonly isDone: boolean
}

describeOnEngine('processes that settle soon', {timeout: 300_000}, () => {
  const table = useTable()
  let scene: Scene
  const children = new Set<ChildProcess>()
  beforeEach(async () => {
    scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'tpm=100M/day')
  })
  afterEach(() => {
    for (const child of children) child.kill('SIGKILL')
    children.clear()
  })

  const consumed = async () => (await scene.totals('user-1', 'gpt-4', 'tpm')).consumed

  function start(seed: number, ending: 'close' | 'leave') {
    const args = [inject('engineEndpoint'), table.name, scene.namespace, String(SIZE.requests), String(seed), ending]
    const child = spawn(process.execPath, ['--import', 'tsx', PROGRAM, ...args], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: {
        PATH: process.env.PATH,
        AWS_ACCESS_KEY_ID: 'local',
        AWS_SECRET_ACCESS_KEY: 'local',
        AWS_REGION: 'eu-west-1',
        AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true',
      },
    })
    children.add(child)
    const reports: Report[] = []
    const lines = createInterface(child.stdout)
    lines.on('line', line => reports.push(JSON.parse(line)))
    // The last lines may arrive after the end of the process.
    const ended = Promise.all([once(child, 'exit'), once(lines, 'close')])
    return {child, reports, lines, ended}
  }

  it.each(['close', 'leave'] as const)('S2 lose nothing when they end normally: %s', async ending => {
    const {child, reports, ended} = start(1, ending)
    await ended
    expect(child.exitCode).toBe(0)
    const last = reports.at(-1) as Report
    const isFinal = reports.some(({isDone}) => isDone)
    expect(isFinal).toBe(true)
    expect(last).toMatchObject({asked: 0, unwritten: {charges: 0, returns: 0}})
    expect(await consumed()).toBe(last.settled)
  })

  it('S6 lose at most the accepted, unwritten settlements when killed', async () => {
    let hadUnwritten = 0
    for (let seed = 0; seed < SIZE.kills; seed++) {
      const before = await consumed()
      const {child, reports, lines, ended} = start(seed, 'close')
      const killAfter = 200 + seed * 37
      lines.on('line', () => {
        if (reports.length === killAfter) child.kill('SIGKILL')
      })
      await ended
      const {settled, asked, unwritten, isDone} = reports.at(-1) as Report
      expect(isDone).toBe(false)
      hadUnwritten += unwritten.charges + unwritten.returns
      const charged = (await consumed()) - before
      expect(charged).toBeGreaterThanOrEqual(settled - unwritten.charges)
      expect(charged).toBeLessThanOrEqual(settled + unwritten.returns + asked)
    }
    // Otherwise the kills have shown nothing.
    expect(hadUnwritten).toBeGreaterThan(0)
  })
})
