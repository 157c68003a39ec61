import {LeasePlay} from './events/lease-play.js'
import {look} from './events/look.js'
import {expire, operate} from './events/operator.js'
import {playPatient} from './events/patient.js'
import {playPeer} from './events/peer.js'
import {checkHealing, readAvailable} from './events/probes.js'
import {playPython} from './events/python.js'
import {checkCosts} from './events/quiet.js'
import {checkQuotaHealing} from './events/quota-healing.js'
import {playFeedback} from './events/report-feedback.js'
import {checkReservations, checkSlots} from './events/slot-probes.js'
import {Stage} from './events/stage.js'
import {Oracles} from './oracles/oracles.js'
import type {Violation} from './oracles/verdicts.js'
import {kindedNames} from './quotas/quota-oracle.js'
import type {Scenario, Step} from './scenario.js'
import type {SimulatedProcess} from './world/process.js'
import {installVirtualTime, VirtualTime} from './world/virtual-time.js'
import {World, type WorldCounts} from './world/world.js'

/** Everything must end within this time after the last step, in ms. */
const SETTLE_MS = 120_000

/** Longest wait of a caller before it asks again, in ms. */
const LONGEST_PLAY_MS = 7_300_000

/** The stream must be read to its end within this time after the last fault, in ms. */
const DRAIN_MS = 1_800_000

const DAY_MS = 86_400_000

export interface RunResult {
  readonly violations: readonly Violation[]
  /** The same for the same scenario. */
  readonly trace: number
  readonly counts: WorldCounts
  readonly operations: number
  readonly log: readonly string[]
}

/** Plays a scenario from start to end and judges it. */
export async function run(scenario: Scenario): Promise<RunResult> {
  const time = new VirtualTime()
  const restore = installVirtualTime(time)
  let oracles: Oracles | undefined
  // In a service, this would end the process.
  const noteUnhandled = (reason: unknown) => oracles?.verdicts.report('L6-unhandled', 'an error', String(reason))
  process.on('unhandledRejection', noteUnhandled)
  try {
    const world = new World(scenario, time)
    oracles = new Oracles(world)
    const {verdicts} = oracles
    world.onWrite = write => oracles?.observe(write)
    world.onRequest = request => oracles?.costs.observeRequest(request)
    await world.setUp()
    const stage = new Stage(world, oracles)
    const plays = await playAll(stage)
    await finish(stage, plays)
    const {trace, counts, log} = world
    return {violations: verdicts.violations, trace, counts, operations: stage.operations.length, log}
  } finally {
    process.off('unhandledRejection', noteUnhandled)
    restore()
  }
}

/** A step in progress; callers waiting for tokens may outlast it. */
interface Play {
  isOver: boolean
}

async function playAll(stage: Stage): Promise<Play[]> {
  const {world} = stage
  const plays: Play[] = []
  const {time, scenario} = world
  const startMs = time.nowMs
  let lastMs = 0
  for (const step of scenario.steps) {
    lastMs = Math.max(lastMs, step.atMs)
    time.after(step.atMs, async () => {
      const current = {isOver: false}
      plays.push(current)
      await play(stage, step)
      current.isOver = true
    })
  }
  await time.runUntil(startMs + lastMs)
  return plays
}

async function play(stage: Stage, step: Step): Promise<void> {
  const {by, event} = step
  const {time, hasPauses} = stage.world
  if (!hasPauses || by < 0 || event.kind === 'kill' || event.kind === 'pause') return playNow(stage, step)
  await time.as(by, async () => {
    // A paused process acts when it continues.
    await time.sleep(0)
    await playNow(stage, step)
  })
}

async function playNow(stage: Stage, {by, event}: Step): Promise<void> {
  const {world} = stage
  const process = world.processes[by]
  try {
    switch (event.kind) {
      case 'expire':
        return expire(world)
      case 'python-config':
      case 'python-consume':
      case 'python-adjust':
      case 'python-clone':
      case 'heat':
      case 'poison':
        return playPython(stage, event)
      case 'peer-config':
      case 'peer-access':
      case 'peer-bypass':
      case 'peer-consume':
      case 'peer-grow':
        return playPeer(stage, event)
      case 'acquire':
        if (process?.isAlive) await new LeasePlay(stage, process, event).play()
        return
      case 'patient':
        if (process?.isAlive) await playPatient(stage, process, event)
        return
      case 'available':
        if (process?.isAlive) await readAvailable(stage, by, event.entity)
        return
      case 'report-feedback':
        if (process?.isAlive) await playFeedback(stage, process, event)
        return
      case 'look':
        return await look(stage, event.entity)
      case 'split-stream':
        return world.stream.split()
      case 'kill':
        world.note(`p${by} killed`)
        stage.oracles.slots.killed(by)
        return process?.kill()
      case 'pause':
        world.note(`p${by} paused`)
        if (process?.isAlive) process.pause(event.ms, event.isSuspended)
        return
      case 'cut':
        return process?.cut(event)
      case 'restart':
        return process?.restart()
      case 'recycle':
        if (process?.isAlive) await recycle(stage, process)
        return
      case 'skew':
        world.noteSkew(event.ms)
        if (process) process.skewMs = event.ms
        return
      default:
        return await operate(stage, event)
    }
  } catch (error) {
    stage.oracles.verdicts.report('simulator', event.kind, (error as Error).stack ?? String(error))
  }
}

/** A limiter that was closed normally has nothing left to write. */
async function recycle(stage: Stage, process: SimulatedProcess): Promise<void> {
  const {limiter, kills, number} = process
  await process.recycle()
  await stage.world.time.sleep(0)
  const unwritten = stage.acceptedBy(limiter)
  if (process.kills === kills && unwritten > 0)
    stage.oracles.verdicts.report('S2-closed', `p${number}`, `${unwritten} settlements were not written`)
}

/** Ends the faults, waits for all operations, reads the stream, compares the books, and lets buckets recover. */
async function finish(stage: Stage, plays: readonly Play[]): Promise<void> {
  const {world, oracles, operations, atEnd} = stage
  const {time, scenario} = world
  world.isCalm = true
  const endMs = time.nowMs + LONGEST_PLAY_MS
  while (plays.some(({isOver}) => !isOver) && time.nowMs < endMs) await time.runUntil(time.nowMs + 60_000)
  await time.runUntil(time.nowMs + SETTLE_MS)
  const closing = world.processes.filter(({isAlive}) => isAlive).map(process => ({process, isClosed: false}))
  for (const each of closing)
    void each.process.limiter.close().then(() => {
      each.isClosed = true
    })
  await time.runUntil(time.nowMs + SETTLE_MS)
  for (const {by, what, startedAtMs, endedAtMs} of operations) {
    const wasKilled = world.processes[by]?.killedAtMs.some(atMs => atMs >= startedAtMs)
    if (endedAtMs === undefined && !wasKilled) oracles.answers.hangs(`p${by} ${what}`)
  }
  for (const {process, isClosed} of closing) if (!isClosed) oracles.answers.hangs(`p${process.number} close`)
  for (const each of atEnd) each()
  // Slots are returned alone, and dead holders looked for.
  if (scenario.profile !== 'holders' && scenario.profile !== 'reservations') checkCosts(stage)
  const hasPurge = scenario.steps.some(({event}) => event.kind === 'purge')
  if (!hasPurge) {
    const {returned} = oracles.reserved
    oracles.books.check({checkHigh: !world.slots.isShared || scenario.sharedSlots === 'decidable', returned})
  }
  oracles.quotas.check()
  oracles.topUps.check()
  const limiters = world.processes.flatMap(process => process.limiters)
  oracles.refusals.check(limiters.reduce((sum, limiter) => sum + limiter.uncountedRefusals, 0))
  if (scenario.aggregatorLagMs !== undefined && !hasPurge) await drain(stage)
  if (scenario.profile === 'holders') await checkSlots(stage)
  if (scenario.profile === 'reservations') await checkReservations(stage)
  if (hasPurge) checkPurged(stage)
  else if (kindedNames(scenario).has('q')) await checkQuotaHealing(stage)
  else await checkHealing(stage)
  if (scenario.profile === 'rollups') await checkRolledUp(stage)
}

/** Rolls up all usage after a day and a month, by concurrent processes. */
async function checkRolledUp(stage: Stage): Promise<void> {
  const {world, oracles} = stage
  const {time, stream} = world
  for (const days of [2, 40]) {
    await time.runUntil(time.nowMs + days * DAY_MS)
    for (let turn = 0; turn < 5; turn++) {
      void stream.tick()
      await time.runUntil(time.nowMs + 200_000)
    }
    await drain(stage)
  }
  oracles.usage.checkRolledUp(world.items, oracles.removed)
}

async function drain({world, oracles}: Stage): Promise<void> {
  const {time, stream} = world
  const endMs = time.nowMs + DRAIN_MS
  while (stream.waiting > 0 && time.nowMs < endMs) await time.runUntil(time.nowMs + 10_000)
  await time.runUntil(time.nowMs + 10_000)
  if (stream.waiting > 0) oracles.verdicts.report('L4-stalled', 'stream', `${stream.waiting} records wait for ever`)
  else oracles.usage.check(world.items, oracles.removed, oracles.refusals.counted)
}

/** S11: a purge leaves nothing behind. */
function checkPurged({world, oracles}: Stage): void {
  const prefix = `${world.namespace}/`
  const left = world.items.filter(({PK}) => PK && 'S' in PK && PK.S.startsWith(prefix))
  if (left.length === 0) return
  const keys = left.map(({PK}) => (PK && 'S' in PK ? PK.S.slice(prefix.length) : ''))
  oracles.verdicts.report('S11-purged', 'tenant', `${left.length} items after the purge: ${keys.join(', ')}`)
}
