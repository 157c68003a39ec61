import {MILLI, shareOf} from '../../../src/lib/core/token-math.js'
import type {Verdicts} from '../oracles/verdicts.js'
import type {TableWrite, Writer} from '../world/table-writes.js'
import {capacityAt, endOf, type QuotaChange, quotaChanges, type StoredQuota, windowOf} from './stored-quota.js'

/** Bounds of clock differences and message delays, in ms. */
export interface Slack {
  /** Maximum lead and lag of a process's clock over the true time. */
  readonly aheadMs: () => number
  readonly behindMs: () => number
  /** Maximum delay from a decision's instant until it takes effect. */
  readonly lagMs: () => number
}

/** All processes use limits set by another client within this time, in ms. */
const CACHE_MS = 30_000

/** The grant of one shard in the window of its balance, in millitokens. */
interface Holding {
  readonly definition: string
  readonly windowMs: number
  readonly endMs: number
  /** The capacity of all shards when it was granted, or when it was last changed. */
  whole: bigint
  /** The shard count that its part was computed with. */
  readonly grantCount: number
  /** Including tokens moved here, without tokens moved away. */
  granted: bigint
  /** Net, in this window. */
  taken: bigint
  readonly allowed: Exceptions
}

/** Exceptions that the rules allow, by invariant. In millitokens. */
interface Exceptions {
  /** S2: grants by operators, with a top-up or a reset. */
  byOperator: bigint
  /** S2: consumption that resets have already granted again: they grant it once. */
  resetUpTo: bigint
  /** S9: a balance is kept when a limit becomes another kind of quota, so it may exceed a window's grant. */
  keptByChange: bigint
  /** S9: a session opened by another shard before another client changed the quota's kind may still be granted here. */
  announced: bigint
  /** S9: another client changed the quota. Until processes know, the window may end at its old time. */
  readonly formerEnd: {readonly endMs: number; readonly changedMs: number; readonly untilMs: number} | undefined
  /**
   * S8: another client copied a shard of an earlier window than the holder of its part: that window is granted here
   * again.
   */
  readonly isLateCopy: boolean
  copiedLate: bigint
  /** S7: charged so close to the end of the window that clocks disagree: the next window may pay for it. */
  chargedAtEnd: bigint
}

const beyond = ({byOperator, keptByChange, copiedLate}: Exceptions): bigint => byOperator + keptByChange + copiedLate

/** A change within a window, or the grant that starts one. */
interface Judged {
  readonly change: QuotaChange
  readonly after: StoredQuota
  readonly windowMs: number
  /** Change of the balance, minus consumption. */
  readonly credit: bigint
  readonly isOpening: boolean
  /** Added by an operator; not part of the credit. */
  readonly bought: bigint
  /** S9: change of the shard's part, because the allowance was changed; not part of the credit. */
  readonly changed: bigint
}

/**
 * Judges every write to a quota: each unit of each window exists once. `Exceptions` lists what else is allowed.
 *
 * | oracle | reports |
 * |---|---|
 * | S1-quota | shards were granted more than the capacity in windows open at the same moment |
 * | S1-quota-debt | a request was admitted into debt |
 * | S2-lost | units disappeared within a window, except by a lowered capacity |
 * | S2-short, S3-grant | a shard enters a window with less, or more, than its share |
 * | S3-minted | units were added within a window |
 * | S3-returned | a refund to a window exceeds the tokens taken in it |
 * | S3-window-again | a shard enters a window before its last one ended |
 * | S7-window-early, S7-window-late | a shard enters early or gives late, beyond clock differences and delays |
 * | S9-ceilings | the shards' ceilings add up to more than the allowance |
 */
export class QuotaLedger {
  readonly #verdicts: Verdicts
  readonly #slack: Slack
  /** By bucket and limit, then by shard. A deleted shard is kept: its window is not over. */
  readonly #holdings = new Map<string, Map<number, Holding>>()
  /** Net millitokens taken in windows that a shard has left: a quota may change its kind and change back. */
  readonly #left = new Map<string, Map<string, bigint>>()
  /**
   * Debts, and topped-up tokens given away, of shards that left a window; in millitokens, negative. Others were granted
   * that much more when the bucket was split.
   */
  readonly #debts = new Map<string, bigint>()
  /** Stored quotas by bucket and limit, then by shard. */
  readonly #stored = new Map<string, Map<number, StoredQuota>>()
  /** Split by another client, which keeps the donor's old ceiling. */
  readonly #splitByOthers = new Set<string>()
  /** Ceilings that a change or another client may have lowered, which cuts the excess. */
  readonly #changed = new Set<string>()
  readonly #periods = new Map<string, number>()
  /** Charges by processes: when, in epoch ms, and in which period. */
  readonly #charges = new Map<string, {readonly atMs: number; readonly period: number}[]>()

  constructor(verdicts: Verdicts, slack: Slack) {
    this.#verdicts = verdicts
    this.#slack = slack
  }

  /** Changes when a shard enters another window or becomes another kind of quota. */
  period(bucket: string, name: string): number {
    return this.#periods.get(keyOf({bucket, name})) ?? 0
  }

  /** The period of all charges of a process since an instant, in epoch ms; `undefined` if there are several. */
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

  /** An operator who deletes a bucket grants a new allowance; expiry does not. */
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

  /** Within a window, units move between shards, and a new shard is granted units that no shard was granted yet. */
  #checkMove(group: readonly Judged[], {kind, event}: Writer): void {
    const [first] = group as [Judged]
    const inside = group.filter(({isOpening}) => !isOpening)
    const created = group.filter(({change}) => !change.isItemBefore && change.shard > 0)
    const net = [...inside, ...created].reduce((sum, {credit}) => sum + credit, 0n)
    const announced = inside.reduce((sum, {change}) => sum + (this.#heldBy(change)?.allowed.announced ?? 0n), 0n)
    if (net > announced && created.length === 0 && event !== 'reset' && kind !== 'python')
      this.#verdicts.report('S3-minted', subjectOf(first.change), `${tokens(net)} were added within a window`)
    if (net >= 0n || kind === 'python' || event === 'reset') return
    // At the capacity in force from now on, or until now.
    const isCut = inside.some(({change: {shard, taken, before}, after}) =>
      [after, before ?? after].some(quota => after.tokens + taken === ceilingOf(quota, shard, after.refilledAtMs)),
    )
    // Refunds are divided by the seen state of the others: two processes at once may exceed one shard's room.
    const isLowering = inside.some(({change: {before}, after}) => before && before.capacity !== after.capacity)
    const isLowered = isLowering || this.#changed.has(keyOf(first.change)) || -net < MILLI
    if (!isCut || !isLowered)
      this.#verdicts.report('S2-lost', subjectOf(first.change), `${tokens(-net)} are gone within a window`)
  }

  /** A window starts with exactly the shard's share, less the tokens it gave before it knew of the window. */
  #checkGrant({change, after, windowMs, credit, bought}: Judged, {kind, event}: Writer): void {
    if (kind === 'python' || event === 'reset') return
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
    // Ignore top-ups stored after a window has ended: they have no effect.
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

  #bookWithin(held: Holding, judged: Judged, {kind, event}: Writer, atMs: number): void {
    const {change, after, credit, bought, changed} = judged
    const {allowed} = held
    held.granted += credit + bought + changed
    if (changed !== 0n) held.whole = capacityAt(after, after.refilledAtMs)
    // Another client changes the capacity, but not the balance: the next change counts from there.
    if (kind === 'python' && change.before) allowed.keptByChange += distance(change.before.capacity, after.capacity)
    held.taken += change.taken
    allowed.byOperator += bought
    const {aheadMs, lagMs} = this.#slack
    if (change.taken > 0n && atMs + aheadMs() + lagMs() >= held.endMs) allowed.chargedAtEnd += change.taken
    this.#checkReturned(change, held)
    if (event === 'reset') {
      // The part of a missing shard starts full too, though nothing was written to it.
      const anew = held.taken - allowed.resetUpTo
      allowed.byOperator += credit > anew ? credit : anew
      allowed.resetUpTo = held.taken
    } else if (allowed.announced > 0n && credit > 0n) allowed.keptByChange += credit
    allowed.announced = 0n
  }

  /** A shard enters a window; `last` is its state before. */
  #enter(last: Holding | undefined, judged: Judged, writer: Writer, atMs: number): void {
    const {change, after, windowMs, bought, isOpening} = judged
    const {kind, event} = writer
    const key = keyOf(change)
    const shards = this.#holdings.get(key) ?? new Map<number, Holding>()
    this.#holdings.set(key, shards)
    this.#bump(key)
    this.#checkAgain(last, judged, writer, atMs)
    const left = this.#leftOf(key, change.shard)
    if (last) this.#leave(key, last, left)
    // A copy of a shard whose window ended holds nothing until its reset, and neither does a session ended by a reset:
    // its balance, topped-up tokens included, belongs to the previous window.
    const isCopy = kind === 'python' && !change.isItemBefore
    const isOver = (isCopy || (event === 'reset' && after.resets === '')) && endOf(after, windowMs) <= atMs
    const granted = isOver ? 0n : after.tokens + change.taken
    const isLateCopy = isCopy && isBehindAnother(change, after, windowMs, shards)
    const wasOther = change.isItemBefore && change.before?.definition !== after.definition
    // A clock that was ahead had started the next window here: the operator's reset fills the current one.
    const isSetBack = event === 'reset' && last !== undefined && windowMs < last.windowMs
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

  /** Keeps the state of a window that a shard leaves: other shards may still be in it. */
  #leave(key: string, last: Holding, left: Map<string, bigint>): void {
    left.set(windowKey(last), last.taken)
    const surplus = beyond(last.allowed) - last.granted
    if (surplus <= 0n) return
    const debtKey = `${key} ${windowKey(last)}`
    this.#debts.set(debtKey, (this.#debts.get(debtKey) ?? 0n) - surplus)
  }

  /** A window starts when the shard's last one has ended. */
  #checkAgain(last: Holding | undefined, {change, after, windowMs}: Judged, {event}: Writer, atMs: number): void {
    if (!last || change.before?.definition !== after.definition || event === 'reset') return
    // If no client marked the balance's window, the announcement of the next one hides it.
    const isHidden = !Number.isFinite(windowMs) && change.taken === 0n && change.gained === 0n
    const beginMs = isHidden ? (after.startMs ?? windowMs) : windowMs
    // A session that started before its length changed counts by the old length, whenever a shard enters it.
    const {formerEnd} = last.allowed
    const isByFormer = formerEnd && (atMs < formerEnd.untilMs || beginMs < formerEnd.changedMs + this.#slack.aheadMs())
    if (beginMs >= Math.min(last.endMs, isByFormer ? formerEnd.endMs : Number.POSITIVE_INFINITY)) return
    const message = `the window of ${iso(beginMs)} begins before that of ${iso(last.windowMs)} has ended`
    this.#verdicts.report('S3-window-again', subjectOf(change), message)
  }

  /** Tokens taken in one window are not refunded to another. */
  #checkReturned(change: QuotaChange, {definition, windowMs}: Holding): void {
    // A shard passes refunds on to others that have room.
    const shards = [...(this.#holdings.get(keyOf(change)) ?? [])]
    const taken = shards.reduce((sum, [shard, held]) => {
      const isSame = held.definition === definition && held.windowMs === windowMs
      const left = this.#leftOf(keyOf(change), shard).get(windowKey({definition, windowMs}))
      return sum + (isSame ? held.taken : (left ?? 0n))
    }, 0n)
    // A session that has not started gives nothing: it starts with its whole allowance.
    const isBegun = change.after?.resets !== '' || Number.isFinite(windowMs)
    if (taken >= 0n || change.taken >= 0n || !isBegun) return
    const message = `${tokens(-taken)} more were returned than were taken in the window of ${iso(windowMs)}`
    this.#verdicts.report('S3-returned', subjectOf(change), message)
  }

  /** Windows may overlap this one, but not each other: at every moment, the open ones are granted one allowance. */
  #checkTotal({change, after, windowMs}: Judged): void {
    const endMs = endOf(after, windowMs)
    const holdings = [...(this.#holdings.get(keyOf(change))?.values() ?? [])].filter(
      each => each.definition === after.definition && each.windowMs < endMs && windowMs < each.endMs,
    )
    const debts = this.#debts.get(`${keyOf(change)} ${windowKey({definition: after.definition, windowMs})}`) ?? 0n
    for (const atMs of new Set(holdings.map(each => Math.max(each.windowMs, windowMs)))) {
      const open = holdings.filter(each => each.windowMs <= atMs && atMs < each.endMs)
      const granted = open.reduce((sum, each) => sum + each.granted, 0n)
      const allowed = open.reduce((most, {whole}) => (whole > most ? whole : most), 0n)
      const besides = open.reduce((sum, each) => sum + beyond(each.allowed), 0n)
      if (granted + debts <= allowed + besides) continue
      const message = `${tokens(granted)} were granted in the window of ${iso(windowMs)}, ${tokens(allowed + besides)} are allowed`
      this.#verdicts.report('S1-quota', `${change.bucket} ${change.name}`, message)
      return
    }
  }

  #store({shard, before, after, ...change}: QuotaChange, {kind, event}: Writer): void {
    const key = keyOf(change)
    const shards = this.#stored.get(key) ?? new Map<number, StoredQuota>()
    this.#stored.set(key, shards)
    if (after) shards.set(shard, after)
    else shards.delete(shard)
    if (kind === 'python' && after && after.shardCount > (before?.shardCount ?? 1)) this.#splitByOthers.add(key)
    const isOther = before && after && (before.definition !== after.definition || before.capacity !== after.capacity)
    const isByOthers = kind !== 'limiter' && event !== 'split'
    if (isByOthers || !after || isOther || after.windows !== '') this.#changed.add(key)
  }

  /** S8, S9: the shards' ceilings add up to the allowance, so that a lowered allowance bounds the balance. */
  #checkCeilings(key: string, atMs: number): void {
    const shards = this.#stored.get(key) ?? new Map<number, StoredQuota>()
    const [first, ...others] = shards.values()
    if (!first || first.shardCount !== shards.size || this.#splitByOthers.has(key)) return
    // A change updates one shard after another.
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

/** `undefined` if the limit is no longer a quota. */
function judge(change: QuotaChange, {kind, event}: Writer): Judged | undefined {
  const {before, after, shard, taken, gained} = change
  if (!after) return undefined
  const windowMs = windowOf(after)
  const isSame = before?.definition === after.definition && windowOf(before) === windowMs
  const bought = event === 'top-up' ? after.topUp - (isSame ? before.topUp : 0n) : 0n
  const added = isSame || !before ? gained + taken : after.tokens - before.tokens + taken
  // The balance of an ended session has no effect.
  const isOpen = endOf(after, windowMs) > after.refilledAtMs
  const isChanged = isSame && kind !== 'python' && after.windows === '' && isOpen && before.heldMs !== windowMs
  const changed = isChanged ? partOf(after, shard) - partOf({...after, capacity: before.capacity}, shard) : 0n
  return {change, after, windowMs, credit: added - bought - changed, isOpening: !isSame, bought, changed}
}

const distance = (a: bigint, b: bigint): bigint => (a > b ? a - b : b - a)

/** Whether another shard opened the session that a shard enters. */
const wasAnnounced = ({before, after}: QuotaChange): boolean =>
  after?.resets === '' && before?.startMs === after.startMs

/** Credit of a session that has not started here, as far as the changed quota can hold it. */
function announcedTo({before, shard}: QuotaChange, after: StoredQuota): bigint {
  const isWaiting = before?.resets === '' && before.startMs !== undefined && before.startMs > (before.appliedMs ?? 0)
  const room = ceilingOf(after, shard, after.refilledAtMs) - after.tokens
  return isWaiting && after.resets !== '' && room > 0n ? room : 0n
}

/**
 * The capacity that a shard's share is computed from: the one in force when it enters the window, which is also when it
 * opens a session.
 */
function wholeOf(change: QuotaChange, after: StoredQuota, windowMs: number): bigint {
  const isOpened = after.resets === '' && Number.isFinite(windowMs) && !wasAnnounced(change)
  return capacityAt(after, isOpened ? windowMs : after.refilledAtMs)
}

const isGrant = ({isOpening, change}: Judged): boolean => isOpening && (change.isItemBefore || change.shard === 0)

/** Events of one quota in one window. */
function groups(judged: readonly Judged[]): Judged[][] {
  const byWindow = new Map<string, Judged[]>()
  for (const each of judged) {
    const key = `${keyOf(each.change)} ${each.after.definition} ${each.windowMs}`
    byWindow.set(key, [...(byWindow.get(key) ?? []), each])
  }
  return [...byWindow.values()]
}

/** Whether the shard that holds a new shard's part is already in a later window. */
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

function ceilingOf(quota: StoredQuota, shard: number, atMs: number): bigint {
  return partOf(quota, shard, atMs) + quota.topUp
}

function partOf(quota: StoredQuota, shard: number, atMs = quota.refilledAtMs): bigint {
  const count = grantCountOf(quota)
  return shareOf(capacityAt(quota, atMs), shard % count, count)
}

const windowKey = ({definition, windowMs}: Pick<Holding, 'definition' | 'windowMs'>) => `${definition} ${windowMs}`
const keyOf = ({bucket, name}: Pick<QuotaChange, 'bucket' | 'name'>): string => `${bucket} ${name}`
const subjectOf = ({bucket, shard, name}: QuotaChange): string => `${bucket} shard ${shard} ${name}`
const tokens = (milli: bigint): string => `${Number(milli) / 1000} tokens`
const iso = (ms: number): string => (Number.isFinite(ms) ? new Date(ms).toISOString() : 'never')
