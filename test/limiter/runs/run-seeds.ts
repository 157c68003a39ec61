import {expect} from 'vitest'
import {Unavailable} from '../../../src/lib/dynamo/errors.js'
import type {Operation, Transport} from '../../../src/lib/dynamo/transport.js'
import type {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import type {Run} from '../../../src/lib/limiter/run.js'
import {MARK_SLOTS} from '../../../src/lib/repository/buckets/writes.js'
import {endDueRuns} from '../../../src/lib/repository/runs/runs.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {Scene} from '../../helpers/limiter.js'
import type {TestTable} from '../../helpers/table.js'
import {seededRandom} from '../fixtures/seeded-random.js'

const CAPACITY = 1000
const LONGEST_RUN_MS = 600_000

/** Faults of one call: lost before or after it was applied, delivered twice, or answered later than others. */
const FAULTS = ['before', 'after', 'twice', 'slow'] as const

interface Process {
  readonly limiter: RateLimiter
  isAlive: boolean
}

/** S14 on raw items, for one seed: processes delegate, spend, settle, end, fail, die, and see periods end. */
class RunSeed {
  readonly #scene: Scene
  readonly #random: () => number
  readonly #faultRate: number
  /** If the parent refuses, the entity is refunded: after a kill or a new period, that refund is lost (S5). */
  readonly #hasParent: boolean
  readonly #processes: Process[] = []
  readonly #ids: string[] = []
  /** Amounts that requests of the entity were admitted with. */
  #own = 0
  /** Amounts whose outcome nobody was told: their process died, or the table did not answer. */
  #unknown = 0
  readonly #problems: string[] = []
  #slots = 0

  constructor(table: TestTable, seed: number) {
    this.#scene = new Scene(table)
    this.#scene.nowMs = 1_700_000_100_000
    this.#random = seededRandom(seed)
    this.#faultRate = this.#pick([0, 0.05, 0.2])
    this.#hasParent = this.#chance(0.5)
  }

  async play(): Promise<string[]> {
    const scene = this.#scene
    await scene.configure({level: 'resource', resource: 'llm'}, `q=${CAPACITY}@"*/5 * * * *"`, 'rpm=1000/min')
    if (this.#hasParent) {
      await scene.entity('team')
      await scene.entity('u', 'team')
    }
    for (let at = 0; at < 3; at++) this.#processes.push(this.#newProcess())
    const steps: Promise<void>[] = []
    const count = this.#int(10, 40)
    for (let at = 0; at < count; at++) {
      const index = this.#int(0, 2)
      if (this.#chance(0.04)) this.#kill(index)
      if (this.#chance(0.15)) scene.nowMs += this.#int(1, 90_000)
      const step = this.#step(this.#processes[index] as Process)
      steps.push(step)
      if (this.#chance(0.6)) await Promise.race([step, this.#pauses(20)])
      else await this.#pauses(this.#int(0, 3))
    }
    await Promise.race([Promise.all(steps), this.#pauses(400)])
    for (const each of this.#processes) if (each.isAlive) await Promise.race([each.limiter.close(), this.#pauses(400)])
    for (const each of this.#processes) each.isAlive = false
    scene.nowMs += LONGEST_RUN_MS
    for (let tries = 0; tries < 5; tries++) await endDueRuns(scene.tenant)
    await this.#checkEnd()
    return this.#problems
  }

  #newProcess(): Process {
    const own = {isAlive: true} as {limiter: RateLimiter; isAlive: boolean}
    const transport: Transport = {
      send: async (operation, input, options) => {
        const fault = this.#chance(this.#faultRate) ? this.#pick(FAULTS) : undefined
        const lost = () => new Unavailable(operation, true, new Error('lost'))
        await this.#pauses(fault === 'slow' ? this.#int(3, 20) : this.#int(0, 2))
        if (!own.isAlive) return new Promise(() => {})
        if (fault === 'before') throw lost()
        const answer = await this.#observed(operation, input, options)
        if (fault === 'twice') await this.#observed(operation, input, undefined).catch(() => {})
        await this.#pauses(this.#int(0, 2))
        if (!own.isAlive) return new Promise(() => {})
        if (fault === 'after') throw lost()
        return answer
      },
    }
    // Processes that share a slot for their marks may charge twice (S6, exceptions). The others write in the last one.
    const slot = this.#slots++ % (MARK_SLOTS - 1)
    const randomBytes = (count: number): Uint8Array => {
      const bytes = crypto.getRandomValues(new Uint8Array(count))
      if (count === 1 || count === 9) bytes[0] = count === 1 ? slot : MARK_SLOTS - 1
      return bytes
    }
    const denyCacheMs = this.#pick([0, 1000])
    own.limiter = this.#scene.limiter({transport, denyCacheMs, random: this.#random, randomBytes})
    return own
  }

  /** An applied end must return only to the period that gave the tokens. */
  readonly #observed: Transport['send'] = async (operation, input, options) => {
    const {transport} = this.#scene.table
    const isEnd = (operation as Operation) === 'TransactWriteItems' && JSON.stringify(input).includes('"run_end"')
    const before = isEnd ? await this.#items() : []
    const answer = await transport.send(operation, input, options)
    if (isEnd) this.#judgeEnd(before, await this.#items())
    return answer
  }

  #judgeEnd(before: readonly Item[], after: readonly Item[]): void {
    for (const item of after) {
      const [key, ended] = [text(item, 'PK'), text(item, 'run_end')]
      const was = before.find(each => text(each, 'PK') === key && text(each, 'SK') === text(item, 'SK'))
      if (ended === '' || !was || text(was, 'run_end') !== '') continue
      const grant = JSON.parse(text(item, 'run_grant'))
      for (const {entity, limit, returned} of JSON.parse(ended).returns) {
        if (limit !== 'q' || Number(returned) <= 0) continue
        const bucket = before.find(each => text(each, 'PK').endsWith(`/BUCKET#${entity}#llm#0`))
        const source = grant.sources.find(
          (each: {entity: string; limit: string}) => each.entity === entity && each.limit === limit,
        )
        if (source.period.endMs !== undefined && source.period.endMs <= whole(bucket, 'rf'))
          this.#problems.push(`${key}: ${returned} came back to a later period`)
      }
    }
  }

  async #step(process: Process): Promise<void> {
    if (!process.isAlive) return
    const {limiter} = process
    const kind = this.#pick(['delegate', 'delegate', 'spend', 'spend', 'spend', 'sub', 'end', 'own', 'due'] as const)
    const amount = this.#int(1, 300)
    try {
      if (kind === 'delegate') {
        this.#unknown += amount
        const asked = {entity: 'u', resource: 'llm', amounts: {q: amount, ...(this.#chance(0.3) && {rpm: 5})}}
        const lasts = `${this.#pick([1, 30, 300, LONGEST_RUN_MS / 1000])}s`
        const decision = await limiter.tryDelegate({...asked, for: lasts})
        if (decision.admitted) this.#ids.push(decision.run.id)
        if (decision.admitted || !this.#hasParent) this.#unknown -= amount
      } else if (kind === 'own') {
        this.#unknown += amount
        const decision = await limiter.tryAcquire({entity: 'u', resource: 'llm', consume: {q: amount}})
        if (decision.admitted) this.#own += amount
        if (decision.admitted || !this.#hasParent) this.#unknown -= amount
      } else if (kind === 'due') await endDueRuns(this.#scene.tenant)
      else await this.#use(kind, process)
    } catch {
      // An outage: the charge stays unknown until it is undone in the background, perhaps never.
    }
  }

  async #use(kind: 'spend' | 'sub' | 'end', {limiter}: Process): Promise<void> {
    const id = this.#ids.length > 0 ? this.#pick(this.#ids) : undefined
    if (id === undefined) return
    const run: Run = await limiter.run(id)
    if (kind === 'end') await run.end()
    else if (kind === 'sub') this.#ids.push((await run.delegate({amounts: {q: this.#int(1, 100)}, for: '100s'})).id)
    else {
      const tokens = this.#int(1, 80)
      const lease = await run.acquire({consume: {q: tokens}})
      await this.#pauses(this.#int(0, 10))
      if (this.#chance(0.4)) await lease.adjust({q: -this.#int(1, tokens)})
      else if (this.#chance(0.2)) await lease.rollback()
    }
  }

  #kill(index: number): void {
    const process = this.#processes[index] as Process
    process.isAlive = false
    this.#processes[index] = this.#newProcess()
  }

  async #checkEnd(): Promise<void> {
    const items = await this.#items()
    /** What runs kept of the entity and its parent. */
    const kept = new Map<string, number>()
    const runs = items.filter(item => text(item, 'run_grant') !== '')
    for (const item of runs) {
      const id = text(item, 'PK').replace(/^.*zael\.run:/, '')
      const grant = JSON.parse(text(item, 'run_grant'))
      if (Object.keys(grant.granted).length === 0) continue
      const ended = text(item, 'run_end')
      if (ended === '') {
        this.#problems.push(`${id} is open after its time`)
        continue
      }
      const end = JSON.parse(ended)
      const bucket = items.find(each => text(each, 'PK').endsWith(`/BUCKET#zael.run:${id}#llm#0`))
      for (const [limit, milli] of Object.entries<string>(grant.granted)) {
        const spent = Number(end.spent[limit])
        if (bucket && whole(bucket, `b_${limit}_tk`) !== 0) this.#problems.push(`${id}: ${limit} is left in the bucket`)
        if (bucket && whole(bucket, `b_${limit}_tc`) !== spent)
          this.#problems.push(`${id}: ${spent} ${limit} spent, ${whole(bucket, `b_${limit}_tc`)} counted`)
        for (const each of end.returns.filter((back: {limit: string}) => back.limit === limit)) {
          const sum = spent + Number(each.returned) + Number(each.lapsed)
          if (sum !== Number(milli)) this.#problems.push(`${id}: ${sum} of ${milli} ${limit} for ${each.entity}`)
          if (limit === 'q') kept.set(each.entity, (kept.get(each.entity) ?? 0) + Number(milli) - Number(each.returned))
        }
      }
    }
    for (const entity of ['u', 'team']) {
      const bucket = items.find(each => text(each, 'PK').endsWith(`/BUCKET#${entity}#llm#0`))
      if (!bucket) continue
      const [tokens, consumed] = [whole(bucket, 'b_q_tk'), whole(bucket, 'b_q_tc')]
      if (tokens > CAPACITY * 1000) this.#problems.push(`${entity} has ${tokens} of ${CAPACITY}`)
      const known = (kept.get(entity) ?? 0) + this.#own * 1000
      if (consumed < known || consumed > known + this.#unknown * 1000)
        this.#problems.push(`${entity}: ${consumed} consumed, ${known} known, ${this.#unknown} unknown`)
    }
  }

  async #items(): Promise<Item[]> {
    const {name, transport} = this.#scene.table
    const {Items = []} = await transport.send('Query', {
      TableName: name,
      IndexName: 'GSI4',
      KeyConditionExpression: '#k = :k',
      ExpressionAttributeNames: {'#k': 'GSI4PK'},
      ExpressionAttributeValues: {':k': {S: this.#scene.namespace}},
    })
    return Promise.all(
      Items.map(async ({PK, SK}) => {
        const key = {PK, SK} as {PK: {S: string}; SK: {S: string}}
        return (await transport.send('GetItem', {TableName: name, Key: key, ConsistentRead: true})).Item ?? {}
      }),
    )
  }

  async #pauses(turns: number): Promise<void> {
    for (let turn = 0; turn < turns; turn++) await new Promise(resolve => setImmediate(resolve))
  }

  #int(from: number, to: number): number {
    return from + Math.floor(this.#random() * (to - from + 1))
  }

  #chance(share: number): boolean {
    return this.#random() < share
  }

  #pick<T>(from: readonly T[]): T {
    return from[this.#int(0, from.length - 1)] as T
  }
}

const text = (item: Item | undefined, name: string): string => {
  const value = item?.[name]
  return value && 'S' in value ? value.S : ''
}

const whole = (item: Item | undefined, name: string): number => {
  const value = item?.[name]
  return value && 'N' in value ? Number(value.N) : 0
}

export async function playSeeds(table: TestTable, from: number, count: number): Promise<void> {
  const problems: string[] = []
  for (let seed = from; seed < from + count; seed++)
    for (const problem of await new RunSeed(table, seed).play()) problems.push(`seed ${seed}: ${problem}`)
  expect(problems).toEqual([])
}
