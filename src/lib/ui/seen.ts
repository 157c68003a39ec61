import type {PollFacts} from '../watch/model.js'

/** What the view has seen, for the line that stays behind. */
export interface Seen {
  readonly startedAtMs: number
  readonly polls: number
  readonly readUnits: number
  /** Number of the last poll that was counted. */
  readonly lastPoll: number
}

/** Counts a poll, once. */
export function sawPoll(seen: Seen, poll: PollFacts | undefined): Seen {
  if (!poll || poll.number === seen.lastPoll) return seen
  return {...seen, polls: seen.polls + 1, readUnits: seen.readUnits + poll.readUnits, lastPoll: poll.number}
}
