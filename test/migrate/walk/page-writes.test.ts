import {setTimeout} from 'node:timers/promises'
import {expect, it} from 'vitest'
import {ValidationFailed} from '../../../src/lib/dynamo/errors.js'
import type {Operation, Transport} from '../../../src/lib/dynamo/transport.js'
import {type Item, n, s} from '../../../src/lib/schema/attribute-value.js'
import {describeOnEngine} from '../../helpers/table.js'
import {type OldTableScene, useOldTable} from '../old-table-scene.js'

const auditEvent = (entity: string, id: string, nowMs: number): Item => ({
  PK: s(`AUDIT#${entity}`),
  SK: s(`#AUDIT#${id}`),
  entity_id: s(entity),
  event_id: s(id),
  action: s('limits_set'),
  timestamp: s('2026-01-01T00:00:00Z'),
  details: {M: {}},
  principal: {NULL: true},
  resource: s('gpt-4'),
  ttl: n(Math.floor(nowMs / 1000) + 86_400),
})

const WRITES: readonly Operation[] = ['PutItem', 'UpdateItem', 'BatchWriteItem', 'TransactWriteItems']

/** The operations that a run sends. */
function observe(scene: OldTableScene, before: (operation: Operation) => Promise<void> | void = () => {}) {
  const sent = new Map<Operation, number>()
  let underway = 0
  const send: Transport['send'] = async (operation, input, options) => {
    sent.set(operation, (sent.get(operation) ?? 0) + 1)
    const isWrite = WRITES.includes(operation)
    if (isWrite) underway++
    try {
      await before(operation)
      return await scene.own.send(operation, input, options)
    } finally {
      if (isWrite) underway--
    }
  }
  scene.transport = {send}
  return {sent, underway: () => underway}
}

describeOnEngine('audit events', () => {
  // With a namespace, this key is longer than the 2048 bytes that DynamoDB allows.
  const long = 'x'.repeat(2048 - 'AUDIT#'.length)
  const scene = useOldTable(4, ({nowMs}) => [
    ...Array.from({length: 60}, (_, at) => auditEvent(`user-${at}`, `01JZ${at}`, nowMs)),
    auditEvent(long, '01JZ', nowMs),
  ])

  it('are copied in batches, and one that cannot be moved stops no other of its batch', async () => {
    const {sent} = observe(scene)
    const {finished, conflicts} = await scene.migrate()
    scene.transport = scene.own
    expect(finished).toBe(true)
    expect(conflicts.shown.map(({key, state}) => [key, state])).toEqual([[`AUDIT#${long} #AUDIT#01JZ`, 'unmovable']])
    expect((await scene.census()).current).toMatchObject({audit: 60})
    expect(sent.get('BatchWriteItem')).toBeGreaterThanOrEqual(3)
    // The writes of one batch, and the record of the migration.
    expect(sent.get('PutItem')).toBeLessThan(60)
  })
})

describeOnEngine('audit events of a batch that the engine does not accept', () => {
  const scene = useOldTable(4, ({nowMs}) =>
    Array.from({length: 30}, (_, at) => auditEvent(`user-${at}`, `01JZ${at}`, nowMs)),
  )

  it('are copied one by one', async () => {
    observe(scene, operation => {
      if (operation === 'BatchWriteItem') throw new ValidationFailed(operation, new Error('one of them is refused'))
    })
    const {finished, conflicts} = await scene.migrate()
    scene.transport = scene.own
    expect({finished, conflicts: conflicts.count}).toEqual({finished: true, conflicts: 0})
    expect((await scene.verify()).clean).toBe(true)
  })
})

describeOnEngine('a run that fails while it compares a page', () => {
  const scene = useOldTable(4, ({nowMs}) =>
    Array.from({length: 1200}, (_, at) => auditEvent(`user-${at}`, `01JZ${at}`, nowMs)),
  )

  it('has ended the writes of the page before', async () => {
    let isWriting = false
    const {underway} = observe(scene, async operation => {
      if (operation === 'BatchGetItem' && isWriting) throw new Error('the comparison fails')
      if (operation !== 'BatchWriteItem') return
      isWriting = true
      await setTimeout(50)
    })
    await expect(scene.migrate()).rejects.toThrow('the comparison fails')
    expect(underway()).toBe(0)
    scene.transport = scene.own
    await scene.migrate()
    expect((await scene.verify()).clean).toBe(true)
  })
})
