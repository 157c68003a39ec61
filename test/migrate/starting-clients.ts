import {describe, expect, it} from 'vitest'
import {EXIT} from '../../src/lib/cli/output/exit.js'
import {ZaelError} from '../../src/lib/core/errors.js'
import {parseLimit} from '../../src/lib/core/limits/limit-text.js'
import type {Operation, Transport} from '../../src/lib/dynamo/transport.js'
import {type Item, s} from '../../src/lib/schema/attribute-value.js'
import type {ConfigScope} from '../../src/lib/schema/config-record.js'
import {perLimitConfigItems} from './fixtures/flat-items.js'
import {makePopulation} from './fixtures/make-population.js'
import {bucketItems} from './limitless/old-buckets.js'
import {type OldTableScene, useOldTable} from './old-table-scene.js'

/** Who is limited by which level, and the capacity there; each bucket was made with these limits. */
const WHO = [
  {entity: 'own', level: 'entity', capacity: 11},
  {entity: 'own-default', level: 'entity_default', capacity: 22},
  {entity: 'plain', level: 'resource', capacity: 33},
  {entity: 'elsewhere', resource: 'other', level: 'system', capacity: 44},
] as const

const config = (scope: ConfigScope, capacity: number): Item[] =>
  perLimitConfigItems({scope, limits: [{...parseLimit(`rpm=${capacity}/min`), burst: capacity}]})

/** A table with limits at all four levels as 0.7 stored them, and buckets or none. */
function items({nowMs}: {nowMs: number}, hasBuckets: boolean, version: string): Item[] {
  return [
    {PK: s(version === '0.9.0' ? '_/SYSTEM#' : 'SYSTEM#'), SK: s('#VERSION'), schema_version: s(version)},
    ...config({level: 'entity', entity: 'own', resource: 'gpt-4'}, 11),
    ...config({level: 'entity', entity: 'own-default', resource: '_default_'}, 22),
    ...config({level: 'resource', resource: 'gpt-4'}, 33),
    ...config({level: 'system'}, 44),
    ...WHO.filter(() => hasBuckets).flatMap(who =>
      bucketItems(who.entity, 'resource' in who ? who.resource : 'gpt-4', [`rpm=${who.capacity}/min`], {nowMs}),
    ),
  ]
}

const WRITES: readonly Operation[] = [
  'PutItem',
  'UpdateItem',
  'DeleteItem',
  'BatchWriteItem',
  'TransactWriteItems',
  'UpdateTable',
  'UpdateTimeToLive',
]

/**
 * Runs something right before and right after every write of a migration; once for each item, because a write that is tried
 * again, after another client has changed the item, would never succeed.
 */
function aroundWrites(scene: OldTableScene, look: (at: string) => Promise<void>): Transport {
  const targets = new Set<string>()
  return {
    send: async (operation, input, options) => {
      const at = `${operation} ${targetOf(input)}`
      const isNew = WRITES.includes(operation) && !targets.has(at)
      targets.add(at)
      if (isNew) await look(`before ${at}`)
      const answer = await scene.own.send(operation, input, options)
      if (isNew) await look(`after ${at}`)
      return answer
    },
  }
}

/** Which items a write is about; of the record of progress also the step. */
function targetOf(input: object): string {
  const {Item, Key, TransactItems = []} = input as {Item?: Item; Key?: Item; TransactItems?: object[]}
  const of = (item: Item) => JSON.stringify([item.PK, item.SK, item.step, item.finished_at])
  if (Item ?? Key) return of(Item ?? Key ?? {})
  return TransactItems.map(each => Object.values(each).map(targetOf).join()).join()
}

type Seen = Map<string, Set<string>>

/** A new client that asks for everybody: a refusal with exit code 5, or admitted by the limits of the right level. */
async function startClient(scene: OldTableScene, at: string, seen: Seen): Promise<void> {
  const limiter = scene.limiter(scene.own)
  for (const who of WHO) {
    const resource = 'resource' in who ? who.resource : 'gpt-4'
    const outcome = await limiter.acquire({entity: who.entity, resource, consume: {rpm: 1}}).then(
      lease => `capacity ${lease.limits.rpm?.capacity}`,
      error => (error instanceof ZaelError ? `${error.code} ${EXIT[error.kind]}` : String(error)),
    )
    const allowed = [
      `capacity ${who.capacity}`,
      'schema.needs-migration 5',
      'schema.migrating 5',
      'namespace.missing 3',
    ]
    expect(allowed, `${who.entity} ${at}`).toContain(outcome)
    seen.set(who.entity, (seen.get(who.entity) ?? new Set()).add(outcome))
  }
  await limiter.close()
}

interface Case {
  readonly hasBuckets: boolean
  readonly version: string
  /** The outcome for a client before the run. */
  readonly first: string
}

/** Starts a client before the run, around each of its writes, and after it. */
export function describeStartingClients(name: string, {hasBuckets, version, first}: Case): void {
  describe(name, () => {
    const population = makePopulation({entities: 0})
    const scene = useOldTable(3, () => items(population, hasBuckets, version), population)

    it('is refused, or decides by the limits of the correct level', async () => {
      const seen: Seen = new Map()
      let looks = 0
      const look = async (at: string) => {
        looks++
        // So that the buckets never run dry.
        scene.nowMs += 60_000
        await startClient(scene, at, seen)
      }
      await look('before the run')
      for (const {entity} of WHO) expect([...(seen.get(entity) ?? [])]).toEqual([first])
      scene.transport = aroundWrites(scene, look)
      expect(await scene.migrate()).toMatchObject({finished: true})
      scene.transport = scene.own
      await look('after the run')
      expect(looks).toBeGreaterThan(20)
      for (const {entity, capacity} of WHO) {
        expect([...(seen.get(entity) ?? [])].sort()).toEqual(
          [`capacity ${capacity}`, first, 'schema.migrating 5'].sort(),
        )
      }
    })
  })
}
