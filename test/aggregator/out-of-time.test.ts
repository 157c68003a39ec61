import {randomUUID} from 'node:crypto'
import {expect, it} from 'vitest'
import type {ArchiveSink} from '../../src/lib/aggregator/audit-archive.js'
import type {StreamRecord} from '../../src/lib/aggregator/stream-event.js'
import type {Transport} from '../../src/lib/dynamo/transport.js'
import {encodeAudit} from '../../src/lib/schema/audit-record.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {usageOf} from './fixtures/stored-usage.js'
import {bucketImage, loggingAggregator, NOON_MS, streamRecord, tableOver} from './fixtures/stream.js'

const BUCKETS = 60

describeOnBoth('a run that runs out of time', {}, table => {
  const stored: string[] = []
  const sink: ArchiveSink = {put: async key => void stored.push(key)}

  const recordsOf = (namespace: string): StreamRecord[] => {
    const events = {namespace, entity: 'user-0', action: 'limits_set', principal: undefined, resource: undefined}
    const expired = encodeAudit({
      ...events,
      ...{eventId: 'A', timestamp: '2023-08-16T11:12:13Z', details: {}, ttlSeconds: 1},
    })
    const changes = Array.from({length: BUCKETS}, (_, at) =>
      streamRecord(undefined, bucketImage({namespace, entity: `user-${at}`, tc: {tpm: 1000}, rq: 1})),
    )
    return [...changes, streamRecord(expired, undefined, {byService: true})]
  }

  it('L4 returns uncounted records, and counts them once when redelivered', async () => {
    const namespace = `ns${randomUUID().slice(0, 8)}`
    const Records = recordsOf(namespace)
    const end = new AbortController()
    let writes = 0
    const wire: Transport = {
      async send(operation, input, options) {
        const output = await table.transport.send(operation, input, options)
        if (operation === 'UpdateItem' && ++writes === BUCKETS) end.abort()
        return output
      },
    }
    const {handle, lines} = loggingAggregator({table: tableOver(wire, table.name, () => NOON_MS), sink})
    const {failures} = await handle({Records}, end.signal)
    const numbers = Records.map(({dynamodb}) => dynamodb.SequenceNumber)
    expect(failures.length).toBeGreaterThan(1)
    expect(failures.length).toBeLessThan(Records.length)
    expect(failures.at(-1)).toBe(numbers.at(-1))
    expect(stored).toEqual([])
    expect(lines.filter(({level}) => level !== 'info')).toEqual([
      expect.objectContaining({level: 'warn', message: 'the run reached its time limit', redelivered: failures.length}),
    ])

    const first = numbers.indexOf(failures[0] ?? '')
    const again = await handle({Records: Records.slice(first)}, new AbortController().signal)
    expect(again.failures).toEqual([])
    expect(stored).toHaveLength(1)
    const hours = await Promise.all(
      Array.from({length: BUCKETS}, async (_, at) => Object.values(await usageOf(table, namespace, `user-${at}`))),
    )
    for (const windows of hours) for (const window of windows) expect(window).toEqual({tpm: 1, events: 1})
    expect(hours.every(windows => windows.length > 0)).toBe(true)
  })

  it('makes no request and returns every record if no time is left at the start', async () => {
    const Records = recordsOf(`ns${randomUUID().slice(0, 8)}`)
    const {handle} = loggingAggregator({table: tableOver(table.transport, table.name, () => NOON_MS), sink})
    const {failures} = await handle({Records}, AbortSignal.abort())
    expect(failures).toEqual(Records.map(({dynamodb}) => dynamodb.SequenceNumber))
  })
})
