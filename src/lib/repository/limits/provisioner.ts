import {ZaelError} from '../../core/errors.js'
import {ConditionFailed} from '../../dynamo/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {type AttributeValue, type Item, s} from '../../schema/attribute-value.js'
import {attributes, keyNames} from '../../schema/attributes.js'
import {keys, wireKey, withoutKey} from '../../schema/keys.js'
import {
  decodeManaged,
  decodePartIdentity,
  decodeProvisioner,
  divide,
  encodeDividedProvisioner,
  encodePart,
  encodeProvisioner,
  fitsIntoItem,
  isSameManaged,
  type Managed,
  type PartSet,
  type ProvisionerRecord,
  partSetOf,
  revisionOf,
} from '../../schema/provisioner-record.js'
import {ranges} from '../../schema/ranges.js'
import {decodeRange} from '../table/query.js'
import {getItem, type NamespaceTable, sendRepeatable} from '../table/table.js'

const names = attributes.provisioner

/** Attempts: another client may replace the record while its parts are read. */
const MOST_READS = 20

/** Without a record, the manifest manages nothing. */
export interface SeenProvisioner {
  readonly record: ProvisionerRecord
  readonly exists: boolean
  /** As stored: a string, or a map if the record is divided. */
  readonly revision: AttributeValue | undefined
  readonly parts: PartSet | undefined
}

/** Configurations that a manifest owns. A write fails if the record has changed since it was read. */
export class Provisioner {
  readonly #table: NamespaceTable

  constructor(table: NamespaceTable) {
    this.#table = table
  }

  async get(signal?: AbortSignal): Promise<SeenProvisioner> {
    let before: string | undefined
    for (let reads = 0; reads < MOST_READS; reads++) {
      const seen = await this.#head(signal)
      const managed = seen.parts && (await readParts(this.#table, seen.parts, signal))
      if (!seen.parts) return seen
      if (managed) return {...seen, record: {...seen.record, ...managed}}
      const base = baseOf(seen)
      if (base === before) throw partsMissing(seen.parts)
      before = base
    }
    throw manifestChanged()
  }

  /** With a hash, also records that the whole manifest was just applied. Parts are written first (decision 39). */
  async save(managed: Managed, seen: SeenProvisioner, appliedHash?: string): Promise<SeenProvisioner> {
    const {namespace, randomBytes} = this.#table
    const {lastApplied, appliedHash: hash} =
      appliedHash === undefined ? seen.record : {appliedHash, lastApplied: this.#now()}
    const record = {...managed, namespace, lastApplied, appliedHash: hash}
    const isDivided = !fitsIntoItem(managed, record)
    const parts = isDivided ? await this.#partsFor(managed, seen) : undefined
    const id = Buffer.from(randomBytes(8)).toString('base64url')
    const item = parts
      ? encodeDividedProvisioner(record, parts, id)
      : {...encodeProvisioner(record), [names.revision]: s(id)}
    await this.#switch(item, id, seen)
    const saved = {record, exists: true, revision: item[names.revision], parts}
    if (seen.parts || parts) await this.#tidy()
    return saved
  }

  async #partsFor(managed: Managed, seen: SeenProvisioner): Promise<PartSet> {
    if (seen.parts && isSameManaged(managed, seen.record)) return seen.parts
    return writeParts(this.#table, managed, baseOf(seen))
  }

  async #switch(item: Item, id: string, seen: SeenProvisioner): Promise<void> {
    const {namespace, name} = this.#table
    const e = new ExpressionBuilder()
    requireUnchanged(e, seen)
    // Only zael's attributes: other tools keep theirs in the same item.
    for (const [attribute, value] of Object.entries(withoutKey(item))) e.set(attribute, value)
    const request = {
      TableName: name,
      Key: wireKey(keys.provisioner(namespace)),
      ...e.update(),
      ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
    } as const
    try {
      await sendRepeatable(this.#table, 'UpdateItem', request)
    } catch (error) {
      if (!(error instanceof ConditionFailed)) throw error
      // Has zael's revision: an earlier attempt wrote it, and its response was lost.
      if (!error.oldItem || revisionOf(error.oldItem) !== id) throw manifestChanged(error)
    }
  }

  /** Leftover parts only cost storage, and the next run that writes parts deletes them. */
  async #tidy(): Promise<void> {
    try {
      await deleteDeadParts(this.#table, () => this.#head())
    } catch (error) {
      if (!(error instanceof ZaelError)) throw error
    }
  }

  async #head(signal?: AbortSignal): Promise<SeenProvisioner> {
    const {namespace} = this.#table
    const item = await getItem(this.#table, keys.provisioner(namespace), {signal})
    const nothing = {managesSystem: false, resources: [], entities: new Map(), lastApplied: undefined}
    const record = (item && decodeProvisioner(item)) ?? {namespace, ...nothing, appliedHash: undefined}
    return {record, exists: item !== undefined, revision: item?.[names.revision], parts: item && partSetOf(item)}
  }

  /** In the Python system's format: microseconds and an offset. */
  #now(): string {
    return new Date(this.#table.clock()).toISOString().replace('Z', '000+00:00')
  }
}

/** Identifies a state of the record: Python clients write a new time, but no revision. */
function baseOf({record, exists, revision}: SeenProvisioner): string {
  const id = revision && revisionOf({[names.revision]: revision})
  return exists ? `${id ?? ''} ${record.lastApplied ?? ''}` : ''
}

function requireUnchanged(e: ExpressionBuilder, {record, exists, revision}: SeenProvisioner): void {
  if (exists) e.exists().require(names.revision, revision).require(names.lastApplied, record.lastApplied)
  else e.absent()
}

function manifestChanged(cause?: unknown): ZaelError {
  const message = 'Another client applied a manifest to this namespace meanwhile.'
  return new ZaelError('conflict', 'manifest.changed', message, {
    hint: 'Check the differences, then apply again.',
    cause,
  })
}

/** `undefined` if a part is missing. Reads part by part to save memory. */
async function readParts(
  table: NamespaceTable,
  {set, count}: PartSet,
  signal?: AbortSignal,
): Promise<Managed | undefined> {
  let managesSystem = false
  const resources: string[] = []
  const entities = new Map<string, readonly string[]>()
  // Nearly all entities share one of a few lists.
  const lists = new Map<string, readonly string[]>()
  for (let number = 0; number < count; number++) {
    const item = await getItem(table, keys.provisionerPart(table.namespace, set, number), {signal})
    if (!item) return undefined
    const part = decodeManaged(item)
    managesSystem ||= part.managesSystem
    resources.push(...part.resources)
    for (const [entity, own] of part.entities) {
      const all = [...(entities.get(entity) ?? []), ...own]
      const name = all.join(' ')
      const list = lists.get(name) ?? all
      lists.set(name, list)
      entities.set(entity, list)
    }
  }
  return {managesSystem, resources, entities}
}

/** Sequential: a part takes up to 400 of its partition's 1,000 write units per s. `base`: the revision to replace. */
async function writeParts(table: NamespaceTable, managed: Managed, base: string): Promise<PartSet> {
  const {namespace, name, randomBytes} = table
  const set = Buffer.from(randomBytes(8)).toString('base64url')
  let count = 0
  for (const part of divide(managed)) {
    const request = {TableName: name, Item: encodePart(namespace, {set, number: count, base}, part)}
    await sendRepeatable(table, 'PutItem', request)
    count++
  }
  return {set, count}
}

/** `readHead` runs after the parts were found: a part based on another revision can never be named. */
async function deleteDeadParts(table: NamespaceTable, readHead: () => Promise<SeenProvisioner>): Promise<void> {
  const {namespace, name} = table
  const e = new ExpressionBuilder().project(...keyNames(), attributes.provisioner.base)
  const found = await decodeRange(table, ranges.provisionerParts(namespace), decodePartIdentity, {e})
  const seen = await readHead()
  for (const part of found) {
    if (part.set === seen.parts?.set || part.base === baseOf(seen)) continue
    const request = {TableName: name, Key: wireKey(keys.provisionerPart(namespace, part.set, part.number))}
    await sendRepeatable(table, 'DeleteItem', request)
  }
}

function partsMissing({set, count}: PartSet): ZaelError {
  const message = `The list of limits managed by this namespace's manifest is incomplete: some of its ${count} parts (set ${set}) are missing.`
  return new ZaelError('failed', 'manifest.record-damaged', message, {
    hint: 'Nothing was changed. Restore the items whose sort key begins with #PROVISIONER from a backup of the table.',
    details: {set, parts: count},
  })
}
