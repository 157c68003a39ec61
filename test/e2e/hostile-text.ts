import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import type {Transport} from '../../src/lib/dynamo/transport.js'
import {Repository} from '../../src/lib/repository/repository.js'
import type {Item} from '../../src/lib/schema/attribute-value.js'
import type {TestTable} from '../helpers/table.js'
import {populate} from './populate.js'

/** Begins with one of zael's colours, and contains every kind of character that must be escaped on a terminal. */
export const HOSTILE = [
  '\u001b[31mPLANTED\u001b[0m', // a colour
  '\u001b]52;c;aGk=\u0007', // a write to the clipboard
  '\u001b]8;;http://x\u001b\\', // a link
  '\u009b2J\u0085\u007f\u0000\b\t\r', // C1, DEL and C0
  '\nError: faked\n', // a line of its own
  '\u202e\u2066\u200e\u200f\u061c', // direction
  '\u200b\u200c\u200d\u2060\ufeff\u00ad\u{e0041}\u2028\u2029', // invisible
].join('')

/** Characters of names that a shell can pass: no NUL. */
export const HOSTILE_WORD = HOSTILE.replace('\u0000', '')

/** A populated table with hostile text everywhere: through the library where it allows it, else by another client. */
export async function populateHostile(table: TestTable): Promise<void> {
  const namespaceId = await populate(table)
  const {name: TableName, transport} = table
  const tenant = new Repository({stack: TableName, transport}).namespaceById(namespaceId)
  await tenant.entities.create({id: 'through-library', name: HOSTILE, metadata: {[HOSTILE]: HOSTILE}})
  await tenant.setLimits({level: 'entity', entity: 'through-library', resource: 'gpt-4'}, parseLimits(['rpm=7']))
  const items = await allItems(transport, TableName)
  for (const name of ['user-1', 'user-2', 'team-1', 'gpt-4', 'search', 'rpm', 'ops', 'bucket_reset', 'default']) {
    const hostile = JSON.stringify(HOSTILE).slice(1, -1)
    const changed = items.map(item => JSON.stringify(item)).filter(text => text.includes(name))
    await putAll(
      transport,
      TableName,
      changed.map(text => JSON.parse(text.replaceAll(name, hostile))),
    )
  }
  // Of no known format, and of the layout before namespaces.
  await putAll(transport, TableName, [
    {PK: {S: HOSTILE}, SK: {S: HOSTILE}},
    {PK: {S: `ENTITY#${HOSTILE}`}, SK: {S: '#META'}, entity_id: {S: HOSTILE}, name: {S: HOSTILE}},
  ])
}

async function allItems(transport: Transport, TableName: string): Promise<Item[]> {
  return (await transport.send('Scan', {TableName})).Items ?? []
}

async function putAll(transport: Transport, TableName: string, items: readonly Item[]): Promise<void> {
  for (const Item of items) await transport.send('PutItem', {TableName, Item})
}
