import {type AccessSwitch, decodeConfig} from '../../../src/lib/schema/config-record.js'
import type {Verdicts} from '../oracles/verdicts.js'
import type {TableWrite} from '../world/table-writes.js'

/** How long processes may use a changed configuration, in ms: `configCacheMs`. */
const CACHE_PERIOD_MS = 60_000

/** Maximum delay of an index, in ms. */
const INDEX_LAG_MS = 50

/** How long a process may repeat a cached refusal, in ms: `denyCacheMs`. */
const DENY_CACHE_MS = 1000

/** Since when a bucket is enabled or disabled, in epoch ms. */
interface Era {
  readonly isDisabled: boolean
  readonly fromMs: number
}

/**
 * Switches: after the call that disables has returned, no write admits a request to a shard that existed before the
 * call; after the cache period, to no shard at all. The write condition refuses requests in flight.
 */
export class Switches {
  readonly #verdicts: Verdicts
  readonly #resource: string
  readonly #access = new Map<string, AccessSwitch | undefined>()
  readonly #eras = new Map<string, Era[]>()
  readonly #createdAtMs = new Map<string, number>()
  #changedAtMs = 0
  /** When an operator's switch call began and returned, in epoch ms. */
  readonly #calls: {readonly beganMs: number; readonly endedMs: number}[] = []

  constructor(verdicts: Verdicts, resource: string) {
    this.#verdicts = verdicts
    this.#resource = resource
  }

  /** A call that stamps all buckets has returned. */
  noteReturned(beganMs: number, endedMs: number): void {
    this.#calls.push({beganMs, endedMs})
  }

  observe({changes, shards, writer, atMs}: TableWrite): void {
    for (const {before, after} of changes) {
      const record = decodeConfig(after ?? before ?? {}, () => [])
      if (!record || record.scope.level === 'system') continue
      const {namespace, scope} = record
      const entity = scope.level === 'entity' ? scope.entity : ''
      const key = `${namespace}/${entity}/${scope.resource}`
      const access = after ? record.access : undefined
      if (this.#access.get(key) === access) continue
      this.#access.set(key, access)
      if (writer.kind !== 'setup') this.#changedAtMs = atMs
      for (const bucket of this.#eras.keys()) this.#note(bucket)
    }
    for (const {bucket, shard, before, after} of shards) {
      if (!this.#eras.has(bucket)) this.#note(bucket)
      const id = `${bucket} ${shard}`
      if (before?.refilledAt === undefined) this.#createdAtMs.set(id, atMs)
      const isAdmission = writer.kind === 'limiter' && (after?.requests ?? 0) > (before?.requests ?? 0)
      if (isAdmission) this.#checkAdmission(bucket, shard, atMs)
    }
  }

  /** A caller got a refusal by the switch. */
  refused(bucket: string, startedMs: number, lagMs: number): void {
    if (!this.#eras.has(bucket)) this.#note(bucket)
    const era = this.#eras.get(bucket)?.at(-1)
    if (!era || era.isDisabled || startedMs <= era.fromMs + DENY_CACHE_MS + lagMs) return
    const message = `is refused ${startedMs - era.fromMs} ms after it was opened again`
    this.#verdicts.report('L2-stays-disabled', bucket, message)
  }

  isDisabled(bucket: string): boolean {
    return this.#eras.get(bucket)?.at(-1)?.isDisabled ?? false
  }

  #checkAdmission(bucket: string, shard: number, atMs: number): void {
    const era = this.#eras.get(bucket)?.at(-1)
    if (!era?.isDisabled) return
    const returned = this.#calls.find(({beganMs, endedMs}) => beganMs <= era.fromMs && era.fromMs <= endedMs)
    const wasThere = (this.#createdAtMs.get(`${bucket} ${shard}`) ?? 0) < (returned?.beganMs ?? 0) - INDEX_LAG_MS
    const fromMs = returned && wasThere ? returned.endedMs : era.fromMs + CACHE_PERIOD_MS + DENY_CACHE_MS
    if (atMs <= fromMs) return
    const message = `a request was admitted ${atMs - era.fromMs} ms after it was disabled`
    this.#verdicts.report('S9-disabled', `${bucket} shard ${shard}`, message)
  }

  #note(bucket: string): void {
    const [namespace, entity] = bucket.split('/')
    const levels = [`${namespace}/${entity}/${this.#resource}`, `${namespace}/${entity}/_default_`]
    const access = [...levels, `${namespace}//${this.#resource}`].map(key => this.#access.get(key)).find(Boolean)
    const isDisabled = access === 'disabled'
    const eras = this.#eras.get(bucket) ?? []
    if (eras.at(-1)?.isDisabled !== isDisabled) eras.push({isDisabled, fromMs: this.#changedAtMs})
    this.#eras.set(bucket, eras)
  }
}
