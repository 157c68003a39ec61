import type {Limit} from '../../core/limits/limit.js'
import {formatLimit} from '../../core/limits/limit-text.js'
import type {MeantChange} from './change-effect.js'
import {type BucketPair, inForce, type LevelLimits} from './level-limits.js'

export interface LimitAlteration {
  readonly name: string
  readonly before: Limit | undefined
  readonly after: Limit | undefined
  /** The place where the change is made has the same values before and after: they are shown there. */
  readonly isShown: boolean
}

/**
 * What changes come to for an entity and a resource besides what was meant by them: limits of other names, and limits with
 * other values before or after than at the place where they are changed. Other levels that a change hides or uncovers are
 * the reason. All levels concerned must have been read.
 */
export function alterationsOf(
  levels: LevelLimits,
  changes: readonly MeantChange[],
  pair: BucketPair,
): LimitAlteration[] {
  const [was, is] = [levels.appliedTo(pair, 'before'), levels.appliedTo(pair, 'after')]
  const deciding = [is, was].flatMap(applied => changes[applied?.change ?? Number.NaN] ?? [])
  const [place] = deciding
  if (!place) return []
  const named = new Set(deciding.flatMap(change => change.named))
  const shown = changed(levels.appliedAt(place.scope, 'before'), levels.appliedAt(place.scope, 'after'))
  return changed(was?.limits ?? [], is?.limits ?? []).flatMap(({name, before, after}) => {
    const same = shown.find(each => each.name === name)
    const isShown = same !== undefined && isSame(same.before, before) && isSame(same.after, after)
    // What is gone and shown is counted as lost.
    return isShown && (named.has(name) || after === undefined) ? [] : [{name, before, after, isShown}]
  })
}

function changed(before: readonly Limit[], after: readonly Limit[]): Omit<LimitAlteration, 'isShown'>[] {
  const [was, is] = [before, after].map(limits => new Map(limits.map(limit => [limit.name, inForce(limit)])))
  return [...new Set([...before, ...after].map(({name}) => name))]
    .sort()
    .map(name => ({name, before: was?.get(name), after: is?.get(name)}))
    .filter(each => !isSame(each.before, each.after))
}

const isSame = (a: Limit | undefined, b: Limit | undefined): boolean =>
  a === b || (a !== undefined && b !== undefined && formatLimit(a) === formatLimit(b))

export interface AlteredLimit extends LimitAlteration {
  readonly resource: string
  readonly entities: number
  /** 0: no live bucket is concerned now; the next one that is used will be. */
  readonly buckets: number
}

export class AlterationCount {
  readonly #found = new Map<
    string,
    {readonly each: LimitAlteration & {resource: string}; entities: Set<string>; buckets: number}
  >()

  add({entity, resource}: BucketPair, alterations: readonly LimitAlteration[], isLive: boolean): void {
    for (const alteration of alterations) {
      const {name, before, after} = alteration
      const key = [resource, name, before && formatLimit(before), after && formatLimit(after)].join('#')
      const known = this.#found.get(key) ?? {each: {...alteration, resource}, entities: new Set(), buckets: 0}
      this.#found.set(key, known)
      if (!isLive) continue
      known.entities.add(entity)
      known.buckets++
    }
  }

  /** Those of most live buckets first. */
  result(): AlteredLimit[] {
    const order = ({resource, name}: {resource: string; name: string}) => `${resource}#${name}`
    return [...this.#found.values()]
      .map(({each, entities, buckets}) => ({...each, entities: entities.size, buckets}))
      .sort((a, b) => b.buckets - a.buckets || (order(a) < order(b) ? -1 : 1))
  }
}
