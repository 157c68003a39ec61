import {ZaelError} from '../core/errors.js'
import {ConditionFailed, isRetryableWhenIdempotent} from '../dynamo/errors.js'
import {ExpressionBuilder} from '../dynamo/expression.js'
import {retrying} from '../dynamo/retry.js'
import {type Item, s} from '../schema/attribute-value.js'
import {attributes} from '../schema/attributes.js'
import {keys, wireKey, withoutKey} from '../schema/keys.js'
import {decodeProvisioner, encodeProvisioner, type ProvisionerRecord} from '../schema/provisioner-record.js'
import {readString} from '../schema/read.js'
import {getItem, type NamespaceTable} from './table/table.js'

const names = attributes.provisioner

/** What a manifest owns in a namespace. */
export type Managed = Pick<ProvisionerRecord, 'managesSystem' | 'resources' | 'entities'>

/** The record as it was read; without a record nothing is managed. */
export interface SeenProvisioner {
  readonly record: ProvisionerRecord
  readonly exists: boolean
  readonly revision: string | undefined
}

/** Which configurations of one namespace are owned by a manifest. A write fails if the record has changed since it was read. */
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
    return {record, exists: item !== undefined, revision: item && readString(item, names.revision)}
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
    const e = new ExpressionBuilder()
    requireUnchanged(e, seen)
    // Only our own attributes: those that other tools keep in the same item stay.
    for (const [attribute, value] of Object.entries(withoutKey(item))) e.set(attribute, value)
    e.set(names.revision, s(revision))
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
      // Stored with this revision: it was written by an earlier attempt whose answer was lost.
      if (!error.oldItem || readString(error.oldItem, names.revision) !== revision) throw manifestChanged(error)
    }
    const record = decodeProvisioner(item) as ProvisionerRecord
    return {record, exists: true, revision}
  }

  /** In the format of the Python system: microseconds and an offset. */
  #now(): string {
    return new Date(this.#table.clock()).toISOString().replace('Z', '000+00:00')
  }
}

function requireUnchanged(e: ExpressionBuilder, {record, exists, revision}: SeenProvisioner): void {
  const key = e.name(attributes.key.partition)
  if (!exists) {
    e.condition(`attribute_not_exists(${key})`)
    return
  }
  e.condition(`attribute_exists(${key})`)
  const values = {[names.revision]: revision, [names.lastApplied]: record.lastApplied}
  for (const [name, value] of Object.entries(values)) {
    e.condition(
      value === undefined ? `attribute_not_exists(${e.name(name)})` : `${e.name(name)} = ${e.value(s(value))}`,
    )
  }
}

function manifestChanged(cause: unknown): ZaelError {
  return new ZaelError(
    'conflict',
    'manifest.changed',
    'A manifest was applied to this namespace by someone else in the meantime.',
    {
      hint: 'Check the differences, then apply again.',
      cause,
    },
  )
}
