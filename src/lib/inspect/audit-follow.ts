import type {AuditRecord} from '../schema/audit-record.js'

/** An index may tell of an event a while after it happened, so every look goes back this far. */
const OVERLAP_MS = 60_000

const PAUSE_MS = 2000

/** How to look for events, and what is passed in. */
export interface FollowOptions {
  /** Events that happened since, newest first. */
  readonly read: (sinceMs: number) => Promise<readonly AuditRecord[]>
  /** Events that were told already. */
  readonly told: Iterable<AuditRecord>
  readonly clock: () => number
  readonly sleep: (ms: number) => Promise<void>
}

/** Events as they happen, each once, oldest first. Ends only with its reader. */
export async function* followAudit({read, told, clock, sleep}: FollowOptions): AsyncGenerator<AuditRecord, never> {
  let newestTold = ''
  for (const {eventId} of told) if (eventId > newestTold) newestTold = eventId
  // What is older than the newest that was told was left out on purpose, unless it turns up later.
  let isNew = (eventId: string): boolean => eventId > newestTold
  for (;;) {
    const found = await read(clock() - OVERLAP_MS)
    yield* found.filter(({eventId}) => isNew(eventId)).toReversed()
    const seen = new Set(found.map(({eventId}) => eventId))
    isNew = eventId => !seen.has(eventId)
    await sleep(PAUSE_MS)
  }
}
