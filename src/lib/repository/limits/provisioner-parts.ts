import {ZaelError} from '../../core/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {attributes, keyNames} from '../../schema/attributes.js'
import {keys, wireKey} from '../../schema/keys.js'
import {
  decodeManaged,
  decodePartIdentity,
  divide,
  encodePart,
  type Managed,
  type PartSet,
} from '../../schema/provisioner-record.js'
import {ranges} from '../../schema/ranges.js'
import {decodeRange} from '../table/query.js'
import {getItem, type NamespaceTable, sendRepeatable} from '../table/table.js'

/** `undefined` if a part is missing. Reads part by part to save memory. */
export async function readParts(
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
export async function writeParts(table: NamespaceTable, managed: Managed, base: string): Promise<PartSet> {
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

export interface NamedParts {
  readonly parts: PartSet | undefined
  readonly base: string
}

/** `readNamed` runs after the parts were found: a part based on another revision can never be named. */
export async function deleteDeadParts(table: NamespaceTable, readNamed: () => Promise<NamedParts>): Promise<void> {
  const {namespace, name} = table
  const e = new ExpressionBuilder().project(...keyNames(), attributes.provisioner.base)
  const found = await decodeRange(table, ranges.provisionerParts(namespace), decodePartIdentity, {e})
  const {parts, base} = await readNamed()
  for (const part of found) {
    if (part.set === parts?.set || part.base === base) continue
    const request = {TableName: name, Key: wireKey(keys.provisionerPart(namespace, part.set, part.number))}
    await sendRepeatable(table, 'DeleteItem', request)
  }
}

export function partsMissing({set, count}: PartSet): ZaelError {
  return new ZaelError(
    'failed',
    'manifest.record-damaged',
    `The record of what the manifest of this namespace manages is incomplete: of its ${count} parts (set ${set}) some are missing.`,
    {
      hint: 'Nothing was changed. Restore the items whose sort key begins with #PROVISIONER from a backup of the table.',
      details: {set, parts: count},
    },
  )
}
