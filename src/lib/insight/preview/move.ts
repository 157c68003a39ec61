import {groupBy} from '../../core/group-by.js'
import {formatMinute, formatSome} from '../../core/text/text.js'
import {chunksOf} from '../../dynamo/concurrency.js'
import {viewBucket} from '../../repository/buckets/view.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {EntityRecord} from '../../schema/entity-record.js'
import {chargedParent, familyOf} from '../../schema/family.js'

const MOST_NAMED = 3
const ENTITIES_PER_READ = 500

export interface FamilyChange {
  readonly entity: string
  /** `null`: none. `undefined`: unchanged. */
  readonly parent?: string | null | undefined
  readonly cascade?: boolean | undefined
}

interface Move {
  readonly before: EntityRecord
  readonly after: EntityRecord
}

/** One text for each quota of a parent that has nothing left, and that requests of existing entities start to charge. */
export async function moveTexts(
  {entities, buckets, configs}: NamespaceRepository,
  changes: readonly FamilyChange[],
  nowMs: number,
): Promise<string[]> {
  const asked = changes.filter(({parent, cascade}) => parent !== undefined || cascade !== undefined)
  const moves: Move[] = []
  for await (const chunk of chunksOf(asked, ENTITIES_PER_READ)) {
    for (const before of await entities.getMany(chunk.map(({entity}) => entity))) {
      const {parent, cascade = before.cascade} = chunk.find(({entity}) => entity === before.entity) ?? {}
      moves.push({
        before,
        after: {...before, parent: parent === undefined ? before.parent : (parent ?? undefined), cascade},
      })
    }
  }
  const texts: string[] = []
  for (const [parent, moved] of groupBy(moves, ({after}) => after.parent)) {
    if (parent === undefined) continue
    for await (const bucket of buckets.ofEntity(parent)) {
      const {resource, limits, bypassedUntil} = viewBucket(bucket, nowMs)
      const empty = limits.filter(({level, soft, resetsAt}) => level < 1 && !soft && resetsAt !== undefined)
      if (empty.length === 0 || bypassedUntil !== null) continue
      const refused: string[] = []
      for (const {before, after} of moved) {
        const policy = (await configs.resolve({entity: before.entity, resource})).cascade?.cascade
        const [was, is] = [before, after].map(each => chargedParent(familyOf(each, policy)))
        if (is !== undefined && is !== was) refused.push(before.entity)
      }
      if (refused.length === 0) continue
      for (const {name, resetsAt = ''} of empty) {
        const who = `${formatSome(refused, MOST_NAMED)} will be refused until ${formatMinute(Date.parse(resetsAt))}`
        texts.push(`${parent} has no ${name} left for ${resource}: ${who}`)
      }
    }
  }
  return texts
}
