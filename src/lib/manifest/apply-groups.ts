import type {PlannedChange} from './plan.js'

/** Changes at a time. Those of entities are small; one of a resource or the system also writes eight buckets at a time. */
const CONCURRENT_ENTITY_CHANGES = 8
const CONCURRENT_WIDE_CHANGES = 2

/** Changes that can be made side by side. */
export interface Group {
  readonly members: readonly PlannedChange[]
  readonly concurrent: number
}

/** Runs of changes that do not depend on each other, in the order of the plan. */
export function groupsOf(changes: readonly PlannedChange[]): Group[] {
  const groups = new Map<string, PlannedChange[]>()
  for (const change of changes) {
    const name =
      change.kind === 'entity' ? `record ${change.depth}` : `${change.action === 'delete'} ${change.scope.level}`
    const group = groups.get(name)
    if (group) group.push(change)
    else groups.set(name, [change])
  }
  return [...groups.values()].map(members => {
    const [first] = members
    const isWide = first?.kind === 'limits' && first.scope.level !== 'entity'
    return {members, concurrent: isWide ? CONCURRENT_WIDE_CHANGES : CONCURRENT_ENTITY_CHANGES}
  })
}
