import {parseLimits} from '../src/lib/core/limits/limit-text.js'
import {RateLimiter} from '../src/lib/limiter/rate-limiter.js'
import type {Item} from '../src/lib/schema/attribute-value.js'
import {idOf, stubWire} from './stub-wire.js'

const RESOURCE = 'gpt-4'

/** Buckets that the stubbed table remembers; more than are in use at once. */
const REMEMBERED = 500

/**
 * Has a bucket for every entity: empty for entities seen before, with one token for all others. It forgets old writes, so that
 * only the limiter grows.
 */
class ForgetfulTable extends Map<string, Item> {
  #model: readonly [entity: string, item: string] | undefined

  constructor(readonly hasCome: (entity: string) => boolean) {
    super()
  }

  /** Every entity has a bucket like this one from now on. */
  imitate(entity: string, item: Item): void {
    this.#model = [entity, JSON.stringify(item)]
  }

  override get(id: string): Item | undefined {
    const known = super.get(id)
    const entity = /user-\d+/.exec(id)?.[0]
    if (known || !this.#model || !entity || !id.includes('BUCKET')) return known
    const [imitated, item] = this.#model
    const tokens = this.hasCome(entity) ? '0' : '1000'
    return {...(JSON.parse(item.replaceAll(imitated, entity)) as Item), b_rpm_tk: {N: tokens}}
  }

  override set(id: string, item: Item): this {
    this.delete(id)
    super.set(id, item)
    if (this.size > REMEMBERED) this.delete(this.keys().next().value as string)
    return this
  }
}

/** A sequence of entities, each admitted once and refused once. */
export function startCrowd(cacheSize: number) {
  let [next, admitted, refused] = [0, 0, 0]
  const come = new Set<string>()
  const number = (entity: string) => Number(entity.slice(5))
  const table = new ForgetfulTable(entity => number(entity) < next && !come.has(entity))
  const wire = stubWire(0, table)
  const limiter = new RateLimiter({
    stack: 'zael-bench',
    namespaceId: 'stubbed',
    transport: wire,
    onUnavailable: 'block',
    maxShards: 1,
    defaultLimits: parseLimits(['rpm=1/hour']),
    cacheSize,
  })
  const visit = async (entity: string): Promise<void> => {
    const request = {entity, resource: RESOURCE, consume: {rpm: 1}}
    come.add(entity)
    if ((await limiter.tryAcquire(request)).admitted) admitted++
    come.delete(entity)
    if (!(await limiter.tryAcquire(request)).admitted) refused++
  }
  return {
    /** Continues until this many entities were seen. */
    until: async (count: number, lanes: number): Promise<void> => {
      if (next === 0) {
        await visit(`user-${next++}`)
        const [item] = [...table.values()].filter(each => idOf(each).includes('user-0'))
        table.imitate('user-0', item as Item)
      }
      const lane = async () => {
        while (next < count) await visit(`user-${next++}`)
      }
      await Promise.all(Array.from({length: lanes}, lane))
    },
    entries: () => limiter.cacheEntries as NonNullable<typeof limiter.cacheEntries>,
    end: async () => {
      await limiter.close()
      return {admitted, refused, unwritten: limiter.uncountedRefusals}
    },
  }
}
