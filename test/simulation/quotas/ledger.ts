import {MILLI, shareOf} from '../../../src/lib/core/token-math.js'
import type {Verdicts} from '../oracles/verdicts.js'
import type {TableWrite, Writer} from '../world/table-writes.js'
import {capacityAt, endOf, type QuotaChange, quotaChanges, type StoredQuota, windowOf} from './stored-quota.js'

/** How far clocks and messages may be off, in ms. */
export interface Slack {
  /** A process's clock is ahead of the true time by at most this, and behind it. */
  readonly aheadMs: () => number
  readonly behindMs: () => number
  /** A decision takes effect at most so long after the instant that it goes by. */
  readonly lagMs: () => number
}

/** Limits that another client sets arrive at all processes within this time, in ms. */
const CACHE_MS = 30_000

/** What one shard was granted in the window that its balance belongs to. */
interface Holding {
  readonly definition: string
  readonly windowMs: number
  readonly endMs: number
  /** When it would have ended before another client changed the quota, and until when processes may go by that. */
  readonly former: {readonly endMs: number; readonly changedMs: number; readonly untilMs: number} | undefined
  /** The capacity of all shards that was in force when it was granted. */
  readonly whole: bigint
  /** Millitokens, with what was moved here and without what was moved away. */
  granted: bigint
  /** Granted beyond what the window allows: by an operator, or because the limit was of another kind before. */
  extra: bigint
  /** Net millitokens that it has given in this window. */
  taken: bigint
  /** How much of that resets have granted anew. */
  forgiven: bigint
  /** What may still be granted by what was read before another client made a session, announced here, another kind of quota. */
  announced: bigint
  /** Charged when the window was over, or so shortly before that nobody knows, and before the next one began here: that one may pay for it. */
  owed: bigint
  /** The number of shards that its part is one of. */
  readonly grantCount: number
  /** A copy by another client of a shard that is behind the one which holds its part: that window is granted here again. */
  readonly isBehind: boolean
}

/** A change within a window, or the grant that begins one. */
interface Judged {
  readonly change: QuotaChange
  readonly after: StoredQuota
  readonly windowMs: number
  /** What was added to the balance besides what was consumed. */
  readonly credit: bigint
  readonly isOpening: boolean
  /** What an operator has added on top; not part of the credit. */
  readonly bought: bigint
}

/**
 * S2, S3 and S8 of quotas, on every write: each unit of each window exists once. A shard is granted exactly its share when
 * its balance enters a window; within the window units only move between shards, or are cut off by a lower capacity. What
 * all shards were granted in windows that overlap is at most the capacity, so what everyone is admitted for is, too. A
 * shard enters a window no earlier than the clock that is furthest ahead, and gives from it no later than the clock
 * that is furthest behind, and the way of a message: nothing else is allowed for.
 */
export class QuotaLedger {
  readonly #verdicts: Verdicts
  readonly #slack: Slack
  /** By bucket and limit, then by shard; a shard that is gone is kept, since the window is not over. */
  readonly #holdings = new Map<string, Map<number, Holding>>()
  /** What was taken in windows that a shard has left, in net millitokens: a quota may become another kind, and the same again. */
  readonly #left = new Map<string, Map<string, bigint>>()
  /**
   * What shards that have left a window owed to it, or had bought for it and given away, in millitokens, negative: others
   * were granted that much more when the bucket was divided.
   */
  readonly #debts = new Map<string, bigint>()
  /** Quotas as stored, by bucket and limit, then by shard. */
  readonly #stored = new Map<string, Map<number, StoredQuota>>()
  /** Another client has split these: it leaves a shard that it divides the ceiling of before. */
  readonly #splitByOthers = new Set<string>()
  /** Ceilings of these may have been lowered, so that what is above is cut off: by a change, or by another client. */
  readonly #changed = new Set<string>()
  readonly #periods = new Map<string, number>()
  /** Charges by processes: when, in epoch ms, and in which period. */
  readonly #charges = new Map<string, {readonly atMs: number; readonly period: number}[]>()

  constructor(verdicts: Verdicts, slack: Slack) {
    this.#verdicts = verdicts
    this.#slack = slack
  }

  /** Changes when a shard of the quota enters another window, or becomes another kind of quota. */
  period(bucket: string, name: string): number {
    return this.#periods.get(keyOf({bucket, name})) ?? 0
  }

  /** The period that all charges of a process since an instant, in epoch ms, were made in; `undefined` if there are several. */
  chargedIn(bucket: string, name: string, process: number, sinceMs: number): number | undefined {
    const charges = this.#charges.get(`${keyOf({bucket, name})} ${process}`)?.filter(({atMs}) => atMs >= sinceMs) ?? []
    const periods = new Set(charges.map(({period}) => period))
    return periods.size === 1 ? charges[0]?.period : undefined
  }

  observe({changes, writer, atMs}: TableWrite): void {
    const all = changes.flatMap(quotaChanges)
    const judged = all.flatMap(change => judge(change, writer) ?? [])
    for (const change of all) if (!change.after) this.#noteGone(change, writer)
    for (const each of judged) this.#checkTime(each, writer, atMs)
    for (const group of groups(judged)) this.#checkMove(group, writer)
    for (const each of judged) if (isGrant(each)) this.#checkGrant(each, writer)
    for (const each of judged) this.#book(each, writer, atMs)
    for (const each of judged) this.#checkTotal(each)
    for (const change of all) this.#store(change, writer)
    for (const key of new Set(all.map(keyOf))) this.#checkCeilings(key, atMs)
    for (const {change} of judged) if (change.taken > 0n) this.#noteCharge(change, writer, atMs)
  }

  /** An operator who deletes a bucket gives a new allowance; expiry does not. */
  #noteGone({bucket, name, shard, isItemAfter}: QuotaChange, {kind}: Writer): void {
    const key = keyOf({bucket, name})
    const held = this.#holdings.get(key)?.get(shard)
    this.#bump(key)
    if (held && isItemAfter) this.#leftOf(key, shard).set(windowKey(held), held.taken)
    if (!isItemAfter) this.#left.delete(`${key} ${shard}`)
    if (isItemAfter || kind === 'operator') this.#holdings.get(key)?.delete(shard)
  }

  #noteCharge(change: QuotaChange, {process}: Writer, atMs: number): void {
    const key = `${keyOf(change)} ${process}`
    const charge = {atMs, period: this.period(change.bucket, change.name)}
    this.#charges.set(key, [...(this.#charges.get(key) ?? []), charge])
  }

  #checkTime({change, after, windowMs, isOpening}: Judged, {kind}: Writer, atMs: number): void {
    const isAdmission = change.requests > 0 && change.taken > 0n
    const subject = subjectOf(change)
    const {aheadMs, behindMs, lagMs} = this.#slack
    if (isOpening && change.isItemBefore && windowMs > atMs + aheadMs()) {
      const message = `entered the window of ${iso(windowMs)} ${windowMs - atMs} ms before it begins`
      this.#verdicts.report('S7-window-early', subject, message)
    }
    if (!isAdmission || kind !== 'limiter') return
    const lateMs = atMs - endOf(after, windowMs)
    if (lateMs >= behindMs() + lagMs())
      this.#verdicts.report('S7-window-late', subject, `gave from a window that was over for ${lateMs} ms`)
    if (after.tokens < 0n && !after.isSoft)
      this.#verdicts.report('S1-quota-debt', subject, `a request was admitted into a debt of ${tokens(-after.tokens)}`)
  }

  /** Within a window units move between shards, and a new shard is granted what nobody was granted yet. */
  #checkMove(group: readonly Judged[], {kind, deed}: Writer): void {
    const [first] = group as [Judged]
    const inside = group.filter(({isOpening}) => !isOpening)
    const created = group.filter(({change}) => !change.isItemBefore && change.shard > 0)
    const net = [...inside, ...created].reduce((sum, {credit}) => sum + credit, 0n)
    const announced = inside.reduce((sum, {change}) => sum + (this.#heldBy(change)?.announced ?? 0n), 0n)
    if (net > announced && created.length === 0 && deed !== 'reset' && kind !== 'python')
      this.#verdicts.report('S3-minted', subjectOf(first.change), `${tokens(net)} were added within a window`)
    if (net >= 0n || kind === 'python' || deed === 'reset') return
    // At the capacity that is in force from now on, or was until now.
    const isCut = inside.some(({change: {shard, taken, before}, after}) =>
      [after, before ?? after].some(quota => after.tokens + taken === ceilingOf(quota, shard, after.refilledAtMs)),
    )
    // Returns are divided by what was seen of the others: those of two processes at once may be too much for one shard.
    const isLowering = inside.some(({change: {before}, after}) => before && before.capacity !== after.capacity)
    const isLowered = isLowering || this.#changed.has(keyOf(first.change)) || -net < MILLI
    if (!isCut || !isLowered)
      this.#verdicts.report('S2-lost', subjectOf(first.change), `${tokens(-net)} are gone within a window`)
  }

  /** A window begins with exactly the share of the shard, less what it has given of it before it knew. */
  #checkGrant({change, after, windowMs, credit, bought}: Judged, {kind, deed}: Writer): void {
    if (kind === 'python' || deed === 'reset') return
    const {shard, before, isItemBefore, taken} = change
    const isAnnounced = wasAnnounced(change)
    const share = shareOf(wholeOf(change, after, windowMs), shard, after.shardCount)
    const subject = subjectOf(change)
    if (before?.definition !== after.definition) {
      const isTooMuch = after.tokens + taken - bought > share && credit > 0n
      if (isTooMuch)
        this.#verdicts.report('S3-grant', subject, `started with ${tokens(after.tokens + taken)} of ${tokens(share)}`)
      return
    }
    if (!isItemBefore) return
    const spent = isAnnounced && before.mark !== undefined ? before.consumed - before.mark : 0n
    const due = share - (spent > 0n ? spent : 0n)
    const owed = this.#heldBy(change)?.owed ?? 0n
    const began = after.tokens + taken - bought
    if (began <= due && began >= due - owed) return
    // What is noted after a window has ended is of no use to anybody, and takes nothing from anybody.
    if (began < due && endOf(after, windowMs) <= after.refilledAtMs) return
    const oracle = began > due ? 'S3-grant' : 'S2-short'
    const message = `the window of ${iso(windowMs)} began with ${tokens(began)}, ${tokens(due)} are due`
    this.#verdicts.report(oracle, subject, message)
  }

  #book({change, after, windowMs, credit, isOpening, bought}: Judged, {kind, deed}: Writer, atMs: number): void {
    const key = keyOf(change)
    const shards = this.#holdings.get(key) ?? new Map<number, Holding>()
    this.#holdings.set(key, shards)
    const known = shards.get(change.shard)
    const isSame = known?.definition === after.definition && known.windowMs === windowMs
    if (known && isSame && !isOpening) {
      known.granted += credit + bought
      known.extra += bought
      known.taken += change.taken
      // A process that is answered after the end cannot tell whether its charge arrived before it.
      const {aheadMs, lagMs} = this.#slack
      if (change.taken > 0n && atMs + aheadMs() + lagMs() >= known.endMs) known.owed += change.taken
      this.#checkReturned(change, known)
      if (deed === 'reset') {
        // The part of a shard that is still missing begins full as well, though nothing was written to it.
        const anew = known.taken - known.forgiven
        known.extra += credit > anew ? credit : anew
        known.forgiven = known.taken
      } else if (known.announced > 0n && credit > 0n) known.extra += credit
      known.announced = 0n
      return
    }
    this.#bump(key)
    // Where no client has marked the window that the balance is of, the announcement of the next one hides it.
    const isHidden = !Number.isFinite(windowMs) && change.taken === 0n && change.gained === 0n
    const beginMs = isHidden ? (after.startMs ?? windowMs) : windowMs
    // A session that had begun before its length was changed began by the former one, whenever a shard enters it.
    const former = known?.former
    const isByFormer = former && (atMs < former.untilMs || beginMs < former.changedMs + this.#slack.aheadMs())
    const isAgain = known && beginMs < Math.min(known.endMs, isByFormer ? former.endMs : Number.POSITIVE_INFINITY)
    if (isAgain && change.before?.definition === after.definition && deed !== 'reset') {
      const message = `the window of ${iso(beginMs)} begins before that of ${iso(known.windowMs)} has ended`
      this.#verdicts.report('S3-window-again', subjectOf(change), message)
    }
    // A copy of a shard whose window is over holds nothing until it is reset, nor does a session that a reset has ended:
    // what is left of it, with what was bought, is of the one before.
    const isEnded = (kind === 'python' && !change.isItemBefore) || (deed === 'reset' && after.resets === '')
    const isOver = isEnded && endOf(after, windowMs) <= atMs
    const granted = isOver ? 0n : after.tokens + change.taken
    const whole = wholeOf(change, after, windowMs)
    const wasOther = change.isItemBefore && change.before?.definition !== after.definition
    const isBehind = kind === 'python' && !change.isItemBefore && isBehindAnother(change, after, windowMs, shards)
    // A clock that was ahead had begun the next window here: the operator's fills up the one that is not over.
    const isSetBack = deed === 'reset' && known !== undefined && windowMs < known.windowMs
    const isBeyond = wasOther || isBehind || isSetBack || (known?.isBehind === true && isOpening)
    const extra = isBeyond && granted > 0n ? granted : bought
    const {definition} = after
    const left = this.#leftOf(key, change.shard)
    if (known) left.set(windowKey(known), known.taken)
    const surplus = known ? known.extra - known.granted : 0n
    if (known && surplus > 0n) {
      const debtKey = `${key} ${windowKey(known)}`
      this.#debts.set(debtKey, (this.#debts.get(debtKey) ?? 0n) - surplus)
    }
    const holding = {
      definition,
      windowMs,
      endMs: endOf(after, windowMs),
      former:
        known && kind === 'python'
          ? {endMs: known.endMs, changedMs: atMs, untilMs: atMs + CACHE_MS + this.#slack.lagMs()}
          : undefined,
      whole,
      granted,
      extra,
      taken: change.taken + (left.get(windowKey({definition, windowMs})) ?? 0n),
      forgiven: 0n,
      announced: kind === 'python' ? announcedTo(change, after) : 0n,
      owed: 0n,
      grantCount: grantCountOf(after),
      isBehind,
    }
    shards.set(change.shard, holding)
    this.#checkReturned(change, holding)
  }

  /** What was taken in one window is not returned to another. */
  #checkReturned(change: QuotaChange, {definition, windowMs}: Holding): void {
    // A shard returns to others what they have room for.
    const shards = [...(this.#holdings.get(keyOf(change)) ?? [])]
    const taken = shards.reduce((sum, [shard, held]) => {
      const isSame = held.definition === definition && held.windowMs === windowMs
      const left = this.#leftOf(keyOf(change), shard).get(windowKey({definition, windowMs}))
      return sum + (isSame ? held.taken : (left ?? 0n))
    }, 0n)
    // Of a session that has not begun nothing can be taken: it begins with its whole allowance.
    const isBegun = change.after?.resets !== '' || Number.isFinite(windowMs)
    if (taken >= 0n || change.taken >= 0n || !isBegun) return
    const message = `${tokens(-taken)} more were returned than were taken in the window of ${iso(windowMs)}`
    this.#verdicts.report('S3-returned', subjectOf(change), message)
  }

  #checkTotal({change, after, windowMs}: Judged): void {
    const endMs = endOf(after, windowMs)
    const shards = [...(this.#holdings.get(keyOf(change))?.values() ?? [])].filter(
      each => each.definition === after.definition && each.windowMs < endMs && windowMs < each.endMs,
    )
    const granted = shards.reduce((sum, each) => sum + each.granted, 0n)
    const allowed = shards.reduce((most, {whole}) => (whole > most ? whole : most), 0n)
    const extra = shards.reduce((sum, each) => sum + each.extra, 0n)
    const debts = this.#debts.get(`${keyOf(change)} ${windowKey({definition: after.definition, windowMs})}`) ?? 0n
    if (granted + debts <= allowed + extra) return
    const message = `${tokens(granted)} were granted in the window of ${iso(windowMs)}, ${tokens(allowed + extra)} are allowed`
    this.#verdicts.report('S1-quota', `${change.bucket} ${change.name}`, message)
  }

  #store({shard, before, after, ...change}: QuotaChange, {kind, deed}: Writer): void {
    const key = keyOf(change)
    const shards = this.#stored.get(key) ?? new Map<number, StoredQuota>()
    this.#stored.set(key, shards)
    if (after) shards.set(shard, after)
    else shards.delete(shard)
    if (kind === 'python' && after && after.shardCount > (before?.shardCount ?? 1)) this.#splitByOthers.add(key)
    const isOther = before && after && (before.definition !== after.definition || before.capacity !== after.capacity)
    const isByOthers = kind !== 'limiter' && deed !== 'split'
    if (isByOthers || !after || isOther || after.windows !== '') this.#changed.add(key)
  }

  /** S8, S9: what the shards may hold adds up to the allowance, so that a lowered one is what is left. */
  #checkCeilings(key: string, atMs: number): void {
    const shards = this.#stored.get(key) ?? new Map<number, StoredQuota>()
    const [first, ...others] = shards.values()
    if (!first || first.shardCount !== shards.size || this.#splitByOthers.has(key)) return
    // A change reaches one shard after the other.
    const isSame = (each: StoredQuota) =>
      each.definition === first.definition && each.capacity === first.capacity && each.shardCount === first.shardCount
    if (!others.every(isSame)) return
    const held = [...shards].reduce((sum, [shard, each]) => sum + ceilingOf(each, shard, atMs), 0n)
    const bought = [...shards.values()].reduce((sum, {topUp}) => sum + topUp, 0n)
    const allowed = capacityAt(first, atMs) + bought
    if (held > allowed)
      this.#verdicts.report('S9-ceilings', key, `${shards.size} shards may hold ${tokens(held)} of ${tokens(allowed)}`)
  }

  #heldBy(change: QuotaChange): Holding | undefined {
    return this.#holdings.get(keyOf(change))?.get(change.shard)
  }

  #leftOf(key: string, shard: number): Map<string, bigint> {
    const left = this.#left.get(`${key} ${shard}`) ?? new Map<string, bigint>()
    this.#left.set(`${key} ${shard}`, left)
    return left
  }

  #bump(key: string): void {
    this.#periods.set(key, (this.#periods.get(key) ?? 0) + 1)
  }
}

/** `undefined` where the limit is no quota any more. */
function judge(change: QuotaChange, {deed}: Writer): Judged | undefined {
  const {before, after, taken, gained} = change
  if (!after) return undefined
  const windowMs = windowOf(after)
  const isSame = before?.definition === after.definition && windowOf(before) === windowMs
  const bought = deed === 'top-up' ? after.topUp - (isSame ? before.topUp : 0n) : 0n
  const added = isSame || !before ? gained + taken : after.tokens - before.tokens + taken
  return {change, after, windowMs, credit: added - bought, isOpening: !isSame, bought}
}

/** Whether another shard had opened the session that a shard enters. */
const wasAnnounced = ({before, after}: QuotaChange): boolean =>
  after?.resets === '' && before?.startMs === after.startMs

/** What a session that has not begun here would add to the balance, as far as the quota that it has become can hold it. */
function announcedTo({before, shard}: QuotaChange, after: StoredQuota): bigint {
  const isWaiting = before?.resets === '' && before.startMs !== undefined && before.startMs > (before.appliedMs ?? 0)
  const room = ceilingOf(after, shard, after.refilledAtMs) - after.tokens
  return isWaiting && after.resets !== '' && room > 0n ? room : 0n
}

/**
 * The capacity that a shard is granted its share of: that in force when it enters the window, which is when a session that
 * it opens begins.
 */
function wholeOf(change: QuotaChange, after: StoredQuota, windowMs: number): bigint {
  const isOpened = after.resets === '' && Number.isFinite(windowMs) && !wasAnnounced(change)
  return capacityAt(after, isOpened ? windowMs : after.refilledAtMs)
}

const isGrant = ({isOpening, change}: Judged): boolean => isOpening && (change.isItemBefore || change.shard === 0)

/** What happens to one quota in one window. */
function groups(judged: readonly Judged[]): Judged[][] {
  const byWindow = new Map<string, Judged[]>()
  for (const each of judged) {
    const key = `${keyOf(each.change)} ${each.after.definition} ${each.windowMs}`
    byWindow.set(key, [...(byWindow.get(key) ?? []), each])
  }
  return [...byWindow.values()]
}

/** Whether the shard that holds the part of a new one is in a later window already. */
function isBehindAnother(
  {shard}: QuotaChange,
  {definition}: StoredQuota,
  windowMs: number,
  shards: ReadonlyMap<number, Holding>,
): boolean {
  return [...shards].some(
    ([other, held]) =>
      other !== shard &&
      held.definition === definition &&
      held.windowMs > windowMs &&
      other % held.grantCount === shard % held.grantCount,
  )
}

const grantCountOf = ({grantCount, shardCount}: StoredQuota): number => grantCount ?? shardCount

/** What a shard may hold. */
function ceilingOf(quota: StoredQuota, shard: number, atMs: number): bigint {
  const count = grantCountOf(quota)
  return shareOf(capacityAt(quota, atMs), shard % count, count) + quota.topUp
}

const windowKey = ({definition, windowMs}: Pick<Holding, 'definition' | 'windowMs'>) => `${definition} ${windowMs}`
const keyOf = ({bucket, name}: Pick<QuotaChange, 'bucket' | 'name'>): string => `${bucket} ${name}`
const subjectOf = ({bucket, shard, name}: QuotaChange): string => `${bucket} shard ${shard} ${name}`
const tokens = (milli: bigint): string => `${Number(milli) / 1000} tokens`
const iso = (ms: number): string => (Number.isFinite(ms) ? new Date(ms).toISOString() : 'never')
