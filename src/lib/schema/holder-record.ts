import {type Item, n, readNumber, readString, s, texts} from './attribute-value.js'
import {attributes} from './attributes.js'
import {indexKeys, parseItemKey} from './keys.js'

/** A process that holds slots, in one namespace. It beats while it holds any. */
export interface HolderRecord {
  readonly namespace: string
  readonly id: string
  /** Changes with every beat; no two beats of any process are equal. Absent if it was declared dead before the first. */
  readonly beat: string | undefined
  /** Another process saw no beat for too long. The holder must stop; its slots are returned. */
  readonly isDead: boolean
  readonly host: string | undefined
  readonly pid: number | undefined
  /** ISO 8601. */
  readonly startedAt: string | undefined
  /**
   * When it last beat, or was declared dead, in epoch ms: for people. Whether it is dead shows only in two beats, because
   * clocks differ.
   */
  readonly beatAtMs?: number | undefined
}

/** A holder beats this often, in ms. */
export const BEAT_MS = 10_000

/** Without a beat for this long, a holder must not start work, in ms. */
export const HOLDER_PERIOD_MS = 30_000

/** Clocks run at different speeds, and a beat takes time to arrive, in ms. */
export const HOLDER_MARGIN_MS = 5000

/** Far beyond the period: the table must not delete a record that is compared. */
const KEPT_SECONDS = 86_400

const names = attributes.holder

/** Its process may be dead: clocks differ, so only a comparison of beats shows it. `undefined`: no record. */
export function seemsDead(record: HolderRecord | undefined, nowMs: number): boolean {
  return !record || record.isDead || record.beatAtMs === undefined || nowMs - record.beatAtMs >= HOLDER_PERIOD_MS
}

/** Epoch seconds. */
export const holderExpiry = (nowMs: number): number => Math.floor(nowMs / 1000) + KEPT_SECONDS

/** Without the key and the beat: the attributes of the first beat. */
export function encodeHolder({namespace, id, host, pid, startedAt}: Omit<HolderRecord, 'beat' | 'isDead'>): Item {
  return {
    ...texts(indexKeys.holderInNamespace(namespace, id)),
    ...(host !== undefined && {[names.host]: s(host)}),
    ...(pid !== undefined && {[names.pid]: n(pid)}),
    ...(startedAt !== undefined && {[names.startedAt]: s(startedAt)}),
  }
}

export function decodeHolder(item: Item): HolderRecord | undefined {
  const key = parseItemKey(item)
  if (key?.record !== 'holder') return undefined
  const expiry = readNumber(item, names.expiresAt)
  return {
    namespace: key.namespace,
    id: key.id,
    beat: readString(item, names.beat),
    isDead: names.dead in item,
    host: readString(item, names.host),
    pid: readNumber(item, names.pid),
    startedAt: readString(item, names.startedAt),
    beatAtMs: expiry === undefined ? undefined : (expiry - KEPT_SECONDS) * 1000,
  }
}
