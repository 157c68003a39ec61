import {formatMinute, formatSome} from '../../core/text/text.js'
import {viewBucket} from '../../repository/buckets/view.js'
import type {EntityChange} from '../../repository/entities/entities.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import {chargedParent, familyOf} from '../../schema/family.js'

const MOST_NAMED = 3

/** Asked if requests start to charge a parent that has nothing left of a quota. `undefined`: no confirmation is needed. */
export async function moveQuestion(
  {entities, buckets, configs}: NamespaceRepository,
  id: string,
  change: EntityChange,
  nowMs: number,
): Promise<string | undefined> {
  if (change.parent === undefined && change.cascade === undefined) return undefined
  const before = await entities.need(id)
  const {parent = before.parent, cascade = before.cascade} = change
  if (typeof parent !== 'string') return undefined
  const refused: string[] = []
  for await (const bucket of buckets.ofEntity(parent)) {
    const {resource, limits, bypassedUntil} = viewBucket(bucket, nowMs)
    const empty = limits.filter(({level, soft, resetsAt}) => level < 1 && !soft && resetsAt !== undefined)
    if (empty.length === 0 || bypassedUntil !== null) continue
    const policy = (await configs.resolve({entity: id, resource})).cascade?.cascade
    const [was, is] = [before, {...before, parent, cascade}].map(each => chargedParent(familyOf(each, policy)))
    if (is === undefined || is === was) continue
    for (const {name, resetsAt = ''} of empty) {
      const until = formatMinute(Date.parse(resetsAt))
      refused.push(`${parent} has no ${name} left for ${resource}: ${id} will be refused until ${until}`)
    }
  }
  return refused.length === 0 ? undefined : formatSome(refused, MOST_NAMED)
}
