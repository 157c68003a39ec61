import {afterAll, beforeAll, beforeEach, expect, inject, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {Configs} from '../../src/lib/repository/limits/configs.js'
import {Audit} from '../../src/lib/repository/table/audit.js'
import type {BucketRecord} from '../../src/lib/schema/bucket-record.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {syncLimits} from '../repository/limits/sync-limits.js'
import {consumedMilli} from './fixtures/ledger.js'
import type {Assignment} from './fixtures/worker-protocol.js'
import {Worker} from './fixtures/workers.js'

/** `ZAEL_TEST_SIZE=full` runs the full sizes; otherwise enough to notice a broken guard. */
const SIZE =
  process.env.ZAEL_TEST_SIZE === 'full'
    ? {runs: 20, users: 40, requestsPerUser: 12, requests: 4000}
    : {runs: 1, users: 24, requestsPerUser: 12, requests: 600}

const PROCESSES = 4
const RESOURCE = 'gpt-4'
const SCOPE = {level: 'resource', resource: RESOURCE} as const
const DAY_MS = 86_400_000

describeOnEngine('races between processes', {timeout: 600_000}, () => {
  const table = useTable()
  let workers: Worker[]
  let scene: Scene

  beforeAll(() => {
    workers = Array.from({length: PROCESSES}, () => new Worker())
  })
  afterAll(async () => {
    await Promise.all(workers.map(worker => worker.kill()))
  })
  beforeEach(() => {
    scene = new Scene(table)
  })

  async function prepare(options: Pick<Assignment, 'entities' | 'requests'> & Partial<Assignment>): Promise<void> {
    const assignment = {
      endpoint: inject('engineEndpoint'),
      stack: table.name,
      namespaceId: scene.namespace,
      resource: RESOURCE,
      lanes: 4,
      largest: 5,
      maxShards: 1,
      configCacheMs: 60_000,
      corrects: 'none' as const,
      ...options,
    }
    await Promise.all(workers.map((worker, seed) => worker.prepare({...assignment, seed})))
  }

  it.each(Array.from({length: SIZE.runs}, (_, run) => run + 1))(
    'S1 give rested users exactly their capacity from four processes at once (run %d)',
    async () => {
      await scene.configure(SCOPE, 'tpm=100/day', 'rpd=1M/day')
      const users = Array.from({length: SIZE.users}, (_, index) => `user-${index}`)
      const yesterday = scene.limiter({clock: () => Date.now() - DAY_MS})
      await Promise.all(users.map(entity => yesterday.acquire({entity, resource: RESOURCE, consume: {tpm: 1, rpd: 1}})))
      await yesterday.close()
      await prepare({entities: users, requests: SIZE.users * SIZE.requestsPerUser, order: 'in turn'})
      const startMs = Date.now()
      const outcomes = await Promise.all(workers.map(worker => worker.go()))
      const refilled = Math.ceil(((Date.now() - startMs) * 100) / DAY_MS)

      expect(outcomes.flatMap(({tally}) => tally.errors)).toEqual([])
      const granted = users.map(user => outcomes.reduce((sum, {tally}) => sum + (tally.held[user]?.[0] ?? 0), 0))
      expect(granted.filter(tokens => tokens > 100 + refilled)).toEqual([])
      // The demand was large enough to show a violation.
      expect(granted.filter(tokens => tokens >= 95).length).toBeGreaterThan(SIZE.users / 2)
    },
  )

  it.each(Array.from({length: SIZE.runs}, (_, run) => run + 1))(
    'S9 S1 apply a limit lowered and raised under traffic from four processes once it is set, and never revert it (run %d)',
    async () => {
      const tenant = {...scene.tenant, clock: Date.now}
      const configs = new Configs(tenant, {audit: new Audit(tenant)})
      await configs.set(SCOPE, parseLimits(['tpm=60000/min', 'rpd=1M/day']))
      await prepare({entities: ['user-1'], requests: SIZE.requests})
      const working = Promise.all(workers.map(worker => worker.go()))
      const read = async () => ((await scene.shards('user-1', RESOURCE)) as [BucketRecord])[0]
      const changes = [60, 600, 30]
      for (const [index, perMinute] of changes.entries()) {
        const part = (SIZE.requests * (index + 1)) / (changes.length + 1)
        await Promise.all(workers.map(worker => worker.decided(part)))
        await configs.set(SCOPE, parseLimits([`tpm=${perMinute}/min`, 'rpd=1M/day']))
        expect((await syncLimits(tenant, SCOPE)).failed).toBe(0)
        // From here on, the new limits apply: docs/library.md.
        const first = await read()
        await Promise.all(workers.map(worker => worker.decided(part + SIZE.requests / 8)))
        const last = await read()
        const untilMs = Date.now()
        for (const {state} of [first, last])
          expect(state.limits.get('tpm')).toMatchObject({capacityMilli: BigInt(perMinute) * 1000n})
        const consumed = Number(consumedMilli([last], 'tpm') - consumedMilli([first], 'tpm')) / 1000
        const earned = ((untilMs - first.state.refilledAtMs) * perMinute) / 60_000
        expect(consumed, `${perMinute} per minute`).toBeLessThanOrEqual(perMinute + earned)
      }
      const outcomes = await working
      const end = await read()

      expect(outcomes.flatMap(({tally}) => tally.errors)).toEqual([])
      expect(end.state.limits.get('tpm')).toMatchObject({capacityMilli: 30_000n})
      expect(outcomes.reduce((sum, {tally}) => sum + tally.denied, 0)).toBeGreaterThan(0)
    },
  )
})
