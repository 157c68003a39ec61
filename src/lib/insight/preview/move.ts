import {groupBy} from '../../core/group-by.js'
import {formatMinute, formatSome, formatTokens} from '../../core/text/text.js'
import {chunksOf} from '../../dynamo/concurrency.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {EntityRecord} from '../../schema/entity-record.js'
import {chargedParent, familyOf} from '../../schema/family.js'
import {quotaBudgets} from '../usage/budgets.js'

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

/** One text for each quota of a parent that is used up, and that requests of existing entities start to charge. */
export async function moveTexts(
  namespace: NamespaceRepository,
  changes: readonly FamilyChange[],
  nowMs: number,
): Promise<string[]> {
  const {entities, configs} = namespace
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
    for (const {entity, resource, name, left, resetsAt, usedUp} of await quotaBudgets(
      namespace,
      {entity: parent},
      nowMs,
    )) {
      if (entity !== parent || !usedUp) continue
      const refused: string[] = []
      for (const {before, after} of moved) {
        const policy = (await configs.resolve({entity: before.entity, resource})).cascade?.cascade
        const [was, is] = [before, after].map(each => chargedParent(familyOf(each, policy)))
        if (is !== undefined && is !== was) refused.push(before.entity)
      }
      if (refused.length === 0) continue
      const amount =
        left > 0 ? `only ${formatTokens(left, (await configs.units()).get(name))} of ${name}` : `no ${name}`
      const who = `${formatSome(refused, MOST_NAMED)} will be refused until ${formatMinute(Date.parse(resetsAt))}`
      texts.push(`${parent} has ${amount} left for ${resource}: ${who}`)
    }
  }
  return texts
}
