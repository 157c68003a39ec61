import type {BucketState} from '../../../src/lib/core/buckets/bucket.js'
import {ZaelError} from '../../../src/lib/core/errors.js'
import type {Lease} from '../../../src/lib/limiter/lease.js'
import type {RateLimiterOptions} from '../../../src/lib/limiter/request/options.js'
import type {Fault} from '../../helpers/fault-transport.js'
import type {Extent} from '../../helpers/memory-table/use-memory-table.js'
import type {TestTable} from '../../helpers/table.js'
import {type Scenario, Stage} from './context.js'

/** Whole tokens by `entity limit`; `early`: possible credit up to a refill instant ahead of the clock. */
type Books = Map<string, {tokens: number; consumed: number; early: number}>

export interface Run {
  readonly leases: readonly Lease[]
  /** Holdings of the leases after everything has settled. */
  readonly leased: ReadonlyMap<string, number>
  /** `done`, or the code of the error. */
  readonly outcome: string
  readonly calls: readonly string[]
  readonly before: Books
  /** When everything has settled, and another process has acquired one `rpm`. */
  readonly probed: Books
  /** After every lease was rolled back without faults. */
  readonly returned: Books
}

export interface RunOptions {
  readonly fault?: Fault
  readonly limiter?: Partial<RateLimiterOptions>
  /** Deadline of the faulted request. */
  readonly timeoutMs?: number
}

/** Longer than any decision may take here, even on a busy machine. */
const SETTLES_WITHIN_MS = 100_000

/** Runs a scenario with one fault, waits until everything has settled, and records the balances at every stage. */
export async function play(table: TestTable, scenario: Scenario, options: RunOptions = {}): Promise<Run> {
  const stage = new Stage(table, {...scenario.options, ...options.limiter})
  const {scene, faults} = stage
  await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=60/min', 'tpm=10k/min')
  if (scenario.cascade) {
    await scene.entity('user-1', 'team-1')
    await scene.configure({level: 'entity', entity: 'team-1', resource: 'gpt-4'}, 'tpm=1000/min')
  }
  const act = await scenario.prepare(stage)
  // Every run starts from the same balances.
  const before = options.fault ? new Map() : await booksOf(stage, scenario)
  stage.timeoutMs = options.timeoutMs
  faults.start(options.fault)
  const outcome = await within(act().then(() => 'done', codeOf))
  faults.release()
  if ((await within(stage.close().then(() => 'closed', codeOf))) !== 'closed')
    throw new Error('close() does not settle')
  const calls = [...faults.calls]
  if (options.fault && faults.hits === 0) throw new Error('the fault was never met')
  faults.stop()
  stage.timeoutMs = undefined
  const leases = [...stage.leases]
  await stage.elsewhere({rpm: 1})
  const probed = await booksOf(stage, scenario)
  const leased = new Map([...probed.keys()].map(where => [where, heldBy(leases, where)]))
  await Promise.all(leases.map(lease => lease.rollback().catch(ignoreEnded)))
  const returned = await booksOf(stage, scenario)
  return {leases, leased, outcome, calls, before, probed, returned}
}

/** All cases, or the last one of each kind of fault. */
export function chosen<T extends Fault>(cases: readonly T[], extent: Extent): T[] {
  return extent === 'all' ? [...cases] : [...new Map(cases.map(each => [each.kind, each])).values()]
}

/** Cases run concurrently. */
const AT_ONCE = 48

/** The differences of all cases of one scenario, each with its case. */
export async function wrongIn(
  cases: readonly Fault[],
  check: (fault: Fault) => Promise<readonly string[]>,
): Promise<string[]> {
  const wrong: string[] = []
  const waiting = cases.values()
  const player = async () => {
    for (const fault of waiting) {
      const found = await check(fault).catch(error => [`${error}`])
      wrong.push(...found.map(what => `${fault.kind} at ${fault.at}: ${what}`))
    }
  }
  await Promise.all(Array.from({length: AT_ONCE}, player))
  return wrong
}

/** Forbidden differences from the run without faults; empty if everything holds. */
export function differences(scenario: Scenario, clean: Run, run: Run, isAmbiguous: boolean): string[] {
  const wrong: string[] = []
  for (const [where, {tokens, consumed, early}] of run.probed) {
    const [, limit = ''] = where.split(' ')
    const sums = [clean.before, clean.probed].map(books => sum(books.get(where)))
    if (!sums.some(expected => isAbout(tokens + consumed, expected, early)))
      wrong.push(`S2 ${where}: ${tokens} + ${consumed} is not one of ${sums}`)
    const extra = isAmbiguous ? (scenario.atStake[limit] ?? 0) : 0
    const own = scenario.before?.[limit] ?? 0
    const probe = where === 'user-1 rpm' ? 1 : 0
    const over = (run.returned.get(where)?.consumed ?? 0) - own - probe
    if (over < 0 || over > extra) wrong.push(`S5 ${where}: ${over} left after everything was returned`)
    if (!scenario.isInParts && over !== 0 && over !== extra) wrong.push(`S6 ${where}: ${over} is not one request`)
    if (scenario.isOnLease && where.startsWith('team')) continue
    const beyond = consumed - probe - own - (run.leased.get(where) ?? 0)
    if (beyond < 0 || beyond > extra) wrong.push(`S6 ${where}: ${beyond} more than all leases hold`)
  }
  return wrong
}

/** A transient fault leaves no trace: the same outcome, the same balances. */
export function traces(clean: Run, run: Run): string[] {
  const wrong: string[] = []
  if (run.outcome !== clean.outcome) wrong.push(`${run.outcome} instead of ${clean.outcome}`)
  for (const stage of ['probed', 'returned'] as const) {
    const expected = clean[stage]
    const isSame = [...run[stage]].every(([where, {tokens, consumed, early}]) => {
      const other = expected.get(where)
      return other !== undefined && consumed === other.consumed && isAbout(tokens, other.tokens, early)
    })
    if (isSame && run[stage].size === expected.size) continue
    const [got, wanted] = [run[stage], expected].map(books => JSON.stringify([...books]))
    wrong.push(`${stage}: ${got} instead of ${wanted}`)
  }
  return wrong
}

function heldBy(leases: readonly Lease[], where: string): number {
  const [entity, limit = ''] = where.split(' ')
  const mine = leases.filter(lease => lease.entity === entity || lease.parent === entity)
  return mine.reduce((total, lease) => total + (lease.consumed[limit] ?? 0), 0)
}

async function booksOf({scene}: Stage, {buckets}: Scenario): Promise<Books> {
  const books: Books = new Map()
  for (const [entity, limits, shards] of buckets) {
    const records = await scene.shards(entity, 'gpt-4', shards)
    for (const limit of limits) {
      const states = records.flatMap(({state}) => state.limits.get(limit) ?? [])
      const total = (field: 'tokensMilli' | 'consumedMilli') =>
        Number(states.reduce((all, state) => all + state[field], 0n)) / 1000
      books.set(`${entity} ${limit}`, {
        tokens: total('tokensMilli'),
        consumed: total('consumedMilli'),
        early: records.reduce((all, {state}) => all + earnedAhead(state, limit, scene.nowMs), 0),
      })
    }
  }
  return books
}

/**
 * Tokens that the time from the clock to the refill instant earns at most. The clock stands still here, so an attempt is
 * ruled out by an instant that is a millisecond ahead of it.
 */
function earnedAhead({refilledAtMs, limits}: BucketState, limit: string, nowMs: number): number {
  const rate = limits.get(limit)
  if (!rate || refilledAtMs <= nowMs) return 0
  return Math.ceil((Number(rate.refillAmountMilli) * (refilledAtMs - nowMs)) / rate.refillPeriodMs) / 1000
}

/** Equal, except for the credit of the time ahead. */
const isAbout = (tokens: number, expected: number, early: number): boolean =>
  tokens >= expected - 1e-6 && tokens <= expected + early + 1e-6

const sum = (entry: {tokens: number; consumed: number} | undefined) => (entry?.tokens ?? 0) + (entry?.consumed ?? 0)

function codeOf(error: unknown): string {
  return error instanceof ZaelError ? error.code : `${error}`
}

function ignoreEnded(error: unknown): void {
  if (codeOf(error) !== 'lease.ended') throw error
}

async function within(work: Promise<string>): Promise<string> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<string>(resolve => {
    timer = setTimeout(() => resolve('did not settle'), SETTLES_WITHIN_MS)
  })
  return Promise.race([work, late]).finally(() => clearTimeout(timer))
}
