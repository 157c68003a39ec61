/** Read units that one poll may cost. */
export const POLL_UNITS = 50
/** Part of them that may go into asking an index which buckets there are. */
const WALK_UNITS = 10

/** Part of the reads that is kept for buckets that nobody asks for: none is forgotten, and new ones are seen soon. */
const ROTATION_PART = 0.25
const ROTATION_PART_WHILE_UNREAD = 0.5

const FIRST_PAGE = 100
const SMALLEST_PAGE = 20
const LARGEST_PAGE = 1000

/** What a read of this kind costs as far as known: DynamoDB charges half a unit per 4 KB that may be a moment old. */
export const USUAL_UNITS_PER_SHARD = 0.5

/** A walk over more than one page begins again so long after its end; a short one with every poll. */
const WALK_PAUSE_MS = 30_000

/** A bucket that could be read. */
export interface PollCandidate {
  readonly id: string
  /** Items that it has. */
  readonly shards: number
  /** Epoch ms; `undefined`: never. */
  readonly readAtMs: number | undefined
  /** Something was consumed between its two last readings; or it was read once, and was not full. */
  readonly isActive: boolean
}

/** Addresses to ask an index for, given what one of the last page has cost. */
export function pageSize(unitsPerAddress: number | undefined): number {
  if (unitsPerAddress === undefined || unitsPerAddress <= 0) return FIRST_PAGE
  return Math.max(SMALLEST_PAGE, Math.min(LARGEST_PAGE, Math.floor(WALK_UNITS / unitsPerAddress)))
}

/** Whether an index that has been walked to its end is asked again. */
export function isWalkDue(last: {readonly pages: number; readonly endedAtMs: number}, nowMs: number): boolean {
  return last.pages <= 1 || nowMs - last.endedAtMs >= WALK_PAUSE_MS
}

/** Items that can be read with what a walk has left of the units of a poll. */
export function affordableShards(walkUnits: number, unitsPerShard: number): number {
  return Math.max(1, Math.floor((POLL_UNITS - walkUnits) / unitsPerShard))
}

/**
 * Which buckets to read: all if they can be afforded. Otherwise the one that was not read for the longest time, at any
 * price; then those on the screen and those that are in use; and with a part that is kept for them those whose turn it is.
 */
export function planReads(
  candidates: readonly PollCandidate[],
  focus: ReadonlySet<string>,
  affordable: number,
): readonly string[] {
  if (candidates.reduce((sum, {shards}) => sum + shards, 0) <= affordable) return candidates.map(({id}) => id)
  const inTurn = candidates.toSorted((a, b) => (a.readAtMs ?? 0) - (b.readAtMs ?? 0))
  const chosen = new Set<string>()
  let spent = 0
  const take = (from: readonly PollCandidate[], most: number): void => {
    for (const {id, shards} of from) {
      if (chosen.has(id) || spent + shards > most) continue
      chosen.add(id)
      spent += shards
    }
  }
  take(inTurn.slice(0, 1), Number.POSITIVE_INFINITY)
  const hasUnread = inTurn.some(({readAtMs}) => readAtMs === undefined)
  const asked = affordable * (1 - (hasUnread ? ROTATION_PART_WHILE_UNREAD : ROTATION_PART))
  take(
    inTurn.filter(({id}) => focus.has(id)),
    asked,
  )
  take(
    inTurn.filter(({isActive}) => isActive),
    asked,
  )
  take(inTurn, affordable)
  return [...chosen]
}
