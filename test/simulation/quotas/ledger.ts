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

/** What one shard was granted in the window that its balance belongs to. In millitokens. */
interface Holding {
  readonly definition: string
  readonly windowMs: number
  readonly endMs: number
  /** The capacity of all shards that was in force when it was granted. */
  readonly whole: bigint
  /** The number of shards that its part is one of. */
  readonly grantCount: number
  /** With what was moved here and without what was moved away. */
  granted: bigint
  /** Net, in this window. */
  taken: bigint
  readonly allowed: Exceptions
}

/** What the rules allow besides, by the invariant that says so. In millitokens. */
interface Exceptions {
  /** S2: what an operator grants on top, with a top-up or a reset. */
  byOperator: bigint
  /** S2: how much of what was taken resets have granted anew already: they grant it once. */
  resetUpTo: bigint
  /** S9: a balance is kept when a limit becomes another kind of quota, so it may be more than a window grants. */
  keptByChange: bigint
  /** S9: a session that another shard had opened when another client made it another kind of quota may still be granted here. */
  announced: bigint
  /** S9: another client changed the quota; until processes know, the window may end when it would have ended before. */
  readonly formerEnd: {readonly endMs: number; readonly changedMs: number; readonly untilMs: number} | undefined
  /** S8: another client copied a shard of an earlier window than the one which holds its part: that window is granted here again. */
  readonly isLateCopy: boolean
  copiedLate: bigint
  /** S7: charged so near the end of the window that clocks disagree about it: the next window may pay for it. */
  chargedAtEnd: bigint
}

const beyond = ({byOperator, keptByChange, copiedLate}: Exceptions): bigint => byOperator + keptByChange + copiedLate

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
 * Judges every write to a quota: each unit of each window exists once. `Exceptions` lists what else is allowed.
 *
 * | oracle | what it reports |
 * |---|---|
 * | S1-quota | shards were granted more in windows that overlap than the capacity |
 * | S1-quota-debt | a request was admitted into debt |
 * | S2-lost | units are gone within a window, other than by a capacity that was lowered |
 * | S2-short, S3-grant | a shard enters a window with less, or more, than its share |
 * | S3-minted | units were added within a window |
 * | S3-returned | more was returned to a window than was taken in it |
 * | S3-window-again | a shard enters a window before the last one has ended |
 * | S7-window-early, S7-window-late | by more than clocks and messages are off, a shard enters a window early or gives from it late |
 * | S9-ceilings | what the shards may hold adds up to more than the allowance |
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
    const announced = inside.reduce((sum, {change}) => sum + (this.#heldBy(change)?.allowed.announced ?? 0n), 0n)
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
    const atEnd = this.#heldBy(change)?.allowed.chargedAtEnd ?? 0n
    const began = after.tokens + taken - bought
    if (began <= due && began >= due - atEnd) return
    // What is noted after a window has ended is of no use to anybody, and takes nothing from anybody.
    if (began < due && endOf(after, windowMs) <= after.refilledAtMs) return
    const oracle = began > due ? 'S3-grant' : 'S2-short'
    const message = `the window of ${iso(windowMs)} began with ${tokens(began)}, ${tokens(due)} are due`
    this.#verdicts.report(oracle, subject, message)
  }

  #book(judged: Judged, writer: Writer, atMs: number): void {
    const {change, after, windowMs, isOpening} = judged
    const held = this.#heldBy(change)
    const isSame = held?.definition === after.definition && held.windowMs === windowMs
    if (held && isSame && !isOpening) this.#bookWithin(held, judged, writer, atMs)
    else this.#enter(held, judged, writer, atMs)
  }

  #bookWithin(held: Holding, {change, credit, bought}: Judged, {deed}: Writer, atMs: number): void {
    const {allowed} = held
    held.granted += credit + bought
    held.taken += change.taken
    allowed.byOperator += bought
    const {aheadMs, lagMs} = this.#slack
    if (change.taken > 0n && atMs + aheadMs() + lagMs() >= held.endMs) allowed.chargedAtEnd += change.taken
    this.#checkReturned(change, held)
    if (deed === 'reset') {
      // The part of a shard that is still missing begins full as well, though nothing was written to it.
      const anew = held.taken - allowed.resetUpTo
      allowed.byOperator += credit > anew ? credit : anew
      allowed.resetUpTo = held.taken
    } else if (allowed.announced > 0n && credit > 0n) allowed.keptByChange += credit
    allowed.announced = 0n
  }

  /** A shard enters a window; `last` is what it held before. */
  #enter(last: Holding | undefined, judged: Judged, writer: Writer, atMs: number): void {
    const {change, after, windowMs, bought, isOpening} = judged
    const {kind, deed} = writer
    const key = keyOf(change)
    const shards = this.#holdings.get(key) ?? new Map<number, Holding>()
    this.#holdings.set(key, shards)
    this.#bump(key)
    this.#checkAgain(last, judged, writer, atMs)
    const left = this.#leftOf(key, change.shard)
    if (last) this.#leave(key, last, left)
    // A copy of a shard whose window is over holds nothing until it is reset, nor does a session that a reset has ended:
    // what is left of it, with what was bought, is of the one before.
    const isCopy = kind === 'python' && !change.isItemBefore
    const isOver = (isCopy || (deed === 'reset' && after.resets === '')) && endOf(after, windowMs) <= atMs
    const granted = isOver ? 0n : after.tokens + change.taken
    const isLateCopy = isCopy && isBehindAnother(change, after, windowMs, shards)
    const wasOther = change.isItemBefore && change.before?.definition !== after.definition
    // A clock that was ahead had begun the next window here: the operator's fills up the one that is not over.
    const isSetBack = deed === 'reset' && last !== undefined && windowMs < last.windowMs
    const isFromCopy = isLateCopy || (last?.allowed.isLateCopy === true && isOpening)
    const isBeyond = (wasOther || isSetBack || isFromCopy) && granted > 0n
    const {definition} = after
    const holding: Holding = {
      definition,
      windowMs,
      endMs: endOf(after, windowMs),
      whole: wholeOf(change, after, windowMs),
      grantCount: grantCountOf(after),
      granted,
      taken: change.taken + (left.get(windowKey({definition, windowMs})) ?? 0n),
      allowed: {
        byOperator: !isBeyond ? bought : isSetBack && !wasOther ? granted : 0n,
        resetUpTo: 0n,
        keptByChange: isBeyond && wasOther ? granted : 0n,
        announced: kind === 'python' ? announcedTo(change, after) : 0n,
        formerEnd:
          last && kind === 'python'
            ? {endMs: last.endMs, changedMs: atMs, untilMs: atMs + CACHE_MS + this.#slack.lagMs()}
            : undefined,
        isLateCopy,
        copiedLate: isBeyond && !wasOther && !isSetBack ? granted : 0n,
        chargedAtEnd: 0n,
      },
    }
    shards.set(change.shard, holding)
    this.#checkReturned(change, holding)
  }

  /** Keeps what is known of a window that a shard leaves: other shards may still be in it. */
  #leave(key: string, last: Holding, left: Map<string, bigint>): void {
    left.set(windowKey(last), last.taken)
    const surplus = beyond(last.allowed) - last.granted
    if (surplus <= 0n) return
    const debtKey = `${key} ${windowKey(last)}`
    this.#debts.set(debtKey, (this.#debts.get(debtKey) ?? 0n) - surplus)
  }

  /** A window begins when the last one of the shard has ended. */
  #checkAgain(last: Holding | undefined, {change, after, windowMs}: Judged, {deed}: Writer, atMs: number): void {
    if (!last || change.before?.definition !== after.definition || deed === 'reset') return
    // Where no client has marked the window that the balance is of, the announcement of the next one hides it.
    const isHidden = !Number.isFinite(windowMs) && change.taken === 0n && change.gained === 0n
    const beginMs = isHidden ? (after.startMs ?? windowMs) : windowMs
    // A session that had begun before its length was changed began by the former one, whenever a shard enters it.
    const {formerEnd} = last.allowed
    const isByFormer = formerEnd && (atMs < formerEnd.untilMs || beginMs < formerEnd.changedMs + this.#slack.aheadMs())
    if (beginMs >= Math.min(last.endMs, isByFormer ? formerEnd.endMs : Number.POSITIVE_INFINITY)) return
    const message = `the window of ${iso(beginMs)} begins before that of ${iso(last.windowMs)} has ended`
    this.#verdicts.report('S3-window-again', subjectOf(change), message)
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
    const besides = shards.reduce((sum, each) => sum + beyond(each.allowed), 0n)
    const debts = this.#debts.get(`${keyOf(change)} ${windowKey({definition: after.definition, windowMs})}`) ?? 0n
    if (granted + debts <= allowed + besides) return
    const message = `${tokens(granted)} were granted in the window of ${iso(windowMs)}, ${tokens(allowed + besides)} are allowed`
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
