import {ZaelError} from '../core/errors.js'
import {ConditionFailed, isRetryableWhenIdempotent} from '../dynamo/errors.js'
import {ExpressionBuilder} from '../dynamo/expression.js'
import {retrying} from '../dynamo/retry.js'
import {type Item, s} from '../schema/attribute-value.js'
import {keys} from '../schema/keys.js'
import {decodeProvisioner, encodeProvisioner, type ProvisionerRecord} from '../schema/provisioner-record.js'
import {readString} from '../schema/read.js'
import {getItem, type NamespaceTable, wireKey} from './table/table.js'

/** Tells one write of the record from every other; the Python system puts whole items and so drops it, which tells too. */
const REVISION = 'rev'

/** What a manifest owns in a namespace. */
export type Managed = Pick<ProvisionerRecord, 'managesSystem' | 'resources' | 'entities'>

/** The record as it was seen; without a record nothing is managed. */
export interface SeenProvisioner {
  readonly record: ProvisionerRecord
  readonly exists: boolean
  readonly revision: string | undefined
}

/** Which configurations of one namespace are owned by a manifest. Each write replaces what the writer has seen, or fails. */
export class Provisioner {
  readonly #table: NamespaceTable

  constructor(table: NamespaceTable) {
    this.#table = table
  }

  async get(): Promise<SeenProvisioner> {
    const {namespace} = this.#table
    const item = await getItem(this.#table, keys.provisioner(namespace))
    const nothing = {managesSystem: false, resources: [], entities: new Map(), lastApplied: undefined}
    const record = (item && decodeProvisioner(item)) ?? {namespace, ...nothing, appliedHash: undefined}
    return {record, exists: item !== undefined, revision: item && readString(item, REVISION)}
  }

  /** The item that `save` would write, without its revision. */
  itemOf(managed: Managed, seen: SeenProvisioner, appliedHash?: string): Item {
    const applied = appliedHash === undefined ? seen.record : {appliedHash, lastApplied: this.#now()}
    const {lastApplied} = applied
    const {namespace} = this.#table
    return encodeProvisioner({...managed, namespace, lastApplied, appliedHash: applied.appliedHash})
  }

  /** Stores what is managed; with a hash, also that a manifest was applied as a whole just now. */
  async save(managed: Managed, seen: SeenProvisioner, appliedHash?: string): Promise<SeenProvisioner> {
    const {namespace, transport, name, randomBytes, backoff} = this.#table
    const revision = Buffer.from(randomBytes(8)).toString('base64url')
    const item = this.itemOf(managed, seen, appliedHash)
    const {PK: _, SK: __, ...attributes} = item
    const e = new ExpressionBuilder()
    guardUnchanged(e, seen)
    // Only its own attributes: what other tools keep in the same item stays.
    for (const [attribute, value] of Object.entries(attributes)) e.set(attribute, value)
    e.set(REVISION, s(revision))
    const request = {
      TableName: name,
      Key: wireKey(keys.provisioner(namespace)),
      ...e.update(),
      ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
    } as const
    try {
      await retrying(() => transport.send('UpdateItem', request), {...backoff, retryable: isRetryableWhenIdempotent})
    } catch (error) {
      if (!(error instanceof ConditionFailed)) throw error
      // Stored with this revision: it was written by an earlier try whose answer was lost.
      if (!error.oldItem || readString(error.oldItem, REVISION) !== revision) throw changedMeanwhile(error)
    }
    const record = decodeProvisioner(item) as ProvisionerRecord
    return {record, exists: true, revision}
  }

  /** As the Python system writes it: microseconds, and the offset spelled out. */
  #now(): string {
    return new Date(this.#table.clock()).toISOString().replace('Z', '000+00:00')
  }
}

function guardUnchanged(e: ExpressionBuilder, {record, exists, revision}: SeenProvisioner): void {
  if (!exists) {
    e.condition(`attribute_not_exists(${e.name('PK')})`)
    return
  }
  e.condition(`attribute_exists(${e.name('PK')})`)
  const values = {[REVISION]: revision, last_applied: record.lastApplied}
  for (const [name, value] of Object.entries(values)) {
    e.condition(
      value === undefined ? `attribute_not_exists(${e.name(name)})` : `${e.name(name)} = ${e.value(s(value))}`,
    )
  }
}

function changedMeanwhile(cause: unknown): ZaelError {
  return new ZaelError(
    'conflict',
    'manifest.changed',
    'A manifest was applied to this namespace by someone else meanwhile.',
    {
      hint: 'Look at what is different now with `zael limits plan`, then apply again.',
      cause,
    },
  )
}
