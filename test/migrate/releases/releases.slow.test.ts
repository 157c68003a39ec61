import {randomBytes} from 'node:crypto'
import {afterAll, beforeAll, expect, inject, it} from 'vitest'
import {resolveConnection} from '../../../src/lib/dynamo/connection.js'
import {createTransport} from '../../../src/lib/dynamo/transports/create.js'
import {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import {Repository} from '../../../src/lib/repository/repository.js'
import {zael} from '../../e2e/zael.js'
import {PATIENT_MS} from '../../helpers/table.js'
import {describeWithOldReleases, OLD_RELEASES, type OldRequest, populate} from './old-release.js'

const limit = (name: string, capacity: number, burst = capacity, seconds = 60) => ({
  name,
  capacity,
  burst,
  amount: capacity,
  seconds,
})

const USUAL = [limit('rpm', 100, 150), limit('tpm', 10_000)]
const HIGH = [limit('rpm', 1_000), limit('tpm', 200_000, 300_000)]

/** An application: most users alike, two customers with more, a team whose members cascade, one with stored limits. */
const REQUESTS: readonly OldRequest[] = [
  ...[1, 2, 3, 4, 5].map(at => ({
    entity: `user-${at}`,
    resource: 'gpt-4',
    limits: USUAL,
    consume: {rpm: at, tpm: 100 * at},
  })),
  {entity: 'acme', resource: 'gpt-4', limits: HIGH, consume: {rpm: 200, tpm: 150_000}},
  {entity: 'globex', resource: 'gpt-4', limits: [limit('rpm', 30)], consume: {rpm: 30}},
  {entity: 'team', resource: 'gpt-4', limits: HIGH, consume: {rpm: 1, tpm: 1}},
  {entity: 'member', parent: 'team', resource: 'search', limits: [limit('rph', 500, 500, 3600)], consume: {rph: 20}},
  {entity: 'user-1', resource: 'db.read', limits: [limit('rps', 10, 20, 1)], consume: {rps: 5}},
  {entity: 'stored', resource: 'gpt-4', stored: true, limits: [limit('rpm', 7, 9)], consume: {rpm: 3}},
]

describeWithOldReleases.each(OLD_RELEASES)('a table made by zae-limiter %s', release => {
  const endpointUrl = inject('engineEndpoint')
  const transport = createTransport({
    connection: resolveConnection({endpointUrl}, {}),
    clock: Date.now,
    connectTimeoutMs: PATIENT_MS,
    requestTimeoutMs: PATIENT_MS,
  })
  let stack = ''
  let left: readonly Record<string, number>[] = []

  beforeAll(() => {
    const made = populate(release, `old-${randomBytes(4).toString('hex')}`, REQUESTS)
    stack = made.table
    left = made.available
  })
  afterAll(async () => {
    await transport.send('DeleteTable', {TableName: stack})
    await transport.close()
  })

  const run = async (...args: string[]) => {
    const {code, stdout} = await zael([...args, '-s', stack, '--endpoint-url', endpointUrl, '--json'])
    return {code, json: JSON.parse(stdout)}
  }
  const limiter = () => new RateLimiter({stack, transport, onUnavailable: 'block', timeoutMs: PATIENT_MS})

  it('has buckets without limits, which status lists before the migration', async () => {
    const {code, json} = await run('migrate', 'status')
    expect({code, buckets: json.limitless.buckets}).toEqual({code: 6, buckets: 11})
    const rows = Object.fromEntries(json.limitless.resources.map((row: {resource: string}) => [row.resource, row]))
    const usual = [
      {name: 'rpm', capacity: 150, refillAmount: 100, refillPeriodSeconds: 60},
      {name: 'tpm', capacity: 10_000, refillAmount: 10_000, refillPeriodSeconds: 60},
    ]
    expect(rows['gpt-4']).toMatchObject({buckets: 8, common: usual, exceptions: {count: 3}})
    // The member and, by its cascade, the team.
    expect(rows.search).toMatchObject({buckets: 2, common: [{name: 'rph', capacity: 500}], exceptions: {count: 0}})
    expect(rows['db.read']).toMatchObject({buckets: 1, common: null, exceptions: {count: 1}})
  })

  it('cannot serve them after a migration that writes no limits, and reports that', async () => {
    const {code, json} = await run('migrate', 'run', '--yes')
    expect({code, finished: json.result.finished}).toEqual({code: 6, finished: true})
    expect(json.result).toMatchObject({limitsWritten: null, limitless: {buckets: 11}})
    expect(await run('migrate', 'verify')).toMatchObject({code: 6, json: {clean: true, limitless: {buckets: 11}}})
    const ask = limiter()
    // The first request takes the limits as the bucket has them.
    await ask.acquire({entity: 'user-1', resource: 'gpt-4', consume: {}}).catch(() => {})
    await expect(ask.acquire({entity: 'user-9', resource: 'gpt-4', consume: {rpm: 1}})).rejects.toMatchObject({
      code: 'limits.missing',
    })
    await ask.close()
  })

  it('serves every entity with its numbers after its limits are written from the buckets', async () => {
    const {code, json} = await run('migrate', 'run', '--yes', '--limits-from-buckets')
    expect({code, ...json.result.limitsWritten}).toEqual({code: 0, resources: 2, entities: 4})
    expect(await run('migrate', 'verify')).toMatchObject({code: 0})
    expect(await run('migrate', 'status')).toMatchObject({code: 0, json: {pending: false}})
    const ask = limiter()
    const {configs} = await new Repository({stack, transport}).namespace()
    for (const [at, {entity, resource, limits}] of REQUESTS.entries()) {
      expect((await configs.resolve({entity, resource})).limits).toEqual(
        limits.map(({name, burst, amount, seconds}) => ({
          name,
          capacity: burst,
          refillAmount: amount,
          refillPeriodSeconds: seconds,
        })),
      )
      // Twice: from the second decision on the limits are compared with the configuration.
      for (let turn = 0; turn < 2; turn++) await ask.acquire({entity, resource, consume: {}})
      const lease = await ask.acquire({
        entity,
        resource,
        consume: Object.fromEntries(limits.map(({name}) => [name, 0])),
      })
      for (const {name, burst} of limits) {
        expect(lease.limits[name]).toMatchObject({capacity: burst})
        // No less than it had; more only by refill.
        expect(lease.limits[name]?.available).toBeGreaterThanOrEqual(left[at]?.[name] ?? 0)
      }
    }
    await ask.close()
  })
})
