import {mkdtemp, readdir, readFile, rm} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {gunzipSync} from 'node:zlib'
import {afterEach, beforeEach, expect, it} from 'vitest'
import {folderSink} from '../../src/lib/aggregator/audit-archive.js'
import type {Item} from '../../src/lib/schema/attribute-value.js'
import {encodeAudit} from '../../src/lib/schema/audit-record.js'
import {MemoryTable} from './fixtures/memory-table.js'
import {loggingAggregator, NOON_MS, streamRecord, tableOver} from './fixtures/stream.js'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'zael-archive-'))
})
afterEach(() => rm(folder, {recursive: true}))

const event = (namespace: string, eventId: string): Item =>
  encodeAudit({
    namespace,
    entity: 'user-1',
    eventId,
    timestamp: '2023-08-16T11:12:13Z',
    action: 'entity_created',
    principal: undefined,
    resource: undefined,
    details: {},
    ttlSeconds: 1,
  })

/** Lines of all files in the archive. */
async function archived(): Promise<Record<string, unknown>[]> {
  const files = (await readdir(folder, {recursive: true})).filter(name => name.endsWith('.jsonl.gz'))
  const texts = await Promise.all(files.map(async name => gunzipSync(await readFile(join(folder, name))).toString()))
  return texts.flatMap(text =>
    text
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line)),
  )
}

it('D-29 C-18 archives events of every namespace, with its id (the reference archived none once keys had a namespace)', async () => {
  const {handle} = loggingAggregator({
    table: tableOver(new MemoryTable(), 'memory', () => NOON_MS),
    sink: folderSink(folder),
  })
  const Records = [
    streamRecord(event('fBkmrAwsQ0Q', 'A'), undefined, {byService: true}),
    streamRecord(event('_vXw2', 'B'), undefined, {byService: true}),
    // Deleted by a user: the reference archived these like expired ones.
    streamRecord(event('fBkmrAwsQ0Q', 'C'), undefined),
  ]
  expect((await handle({Records})).counts.archived).toBe(2)
  expect(await archived()).toMatchObject([
    {event_id: 'A', namespace: 'fBkmrAwsQ0Q'},
    {event_id: 'B', namespace: '_vXw2'},
  ])
})
