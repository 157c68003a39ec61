import type {Key} from '../../schema/attribute-value.js'
import {parseKey} from '../../schema/keys.js'

/** A kind of record; `other`: keys of no current record, such as those of older layouts. */
export type RecordKind =
  | 'namespace-by-name'
  | 'namespace-by-id'
  | 'version'
  | 'rollups'
  | 'rollup-agenda'
  | 'entity'
  | 'bucket'
  | 'entity-config'
  | 'resource-config'
  | 'system-config'
  | 'resource-registry'
  | 'entity-config-registry'
  | 'provisioner'
  | 'provisioner-part'
  | 'apply-lock'
  | 'units'
  | 'boost'
  | 'pending-apply'
  | 'operation'
  | 'holder'
  | 'reservation'
  | 'audit'
  | 'usage'
  | 'other'

/** Items by kind; kinds without items are left out. */
export type CountsByKind = {readonly [kind in RecordKind]?: number}

/** Items deleted so far. */
export interface Removed {
  readonly deleted: number
  readonly byKind: CountsByKind
}

export class KindCounter {
  #total = 0
  readonly #byKind: {[kind in RecordKind]?: number} = {}

  add(keys: Iterable<Key>): void {
    for (const key of keys) {
      const kind: RecordKind = parseKey(key)?.record ?? 'other'
      this.#byKind[kind] = (this.#byKind[kind] ?? 0) + 1
      this.#total++
    }
  }

  get total(): number {
    return this.#total
  }

  get byKind(): CountsByKind {
    return {...this.#byKind}
  }

  removed(): Removed {
    return {deleted: this.#total, byKind: this.byKind}
  }
}
