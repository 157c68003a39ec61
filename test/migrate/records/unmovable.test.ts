import {expect, it} from 'vitest'
import {surveyTable} from '../../../src/lib/migrate/survey.js'
import {type Item, n, s} from '../../../src/lib/schema/attribute-value.js'
import {describeOnEngine} from '../../helpers/table.js'
import {oldBucketItem} from '../old-clients.js'
import {useOldTable} from '../old-table-scene.js'

const entity = (id: string, metadata: Item = {}): Item => ({
  PK: s(`ENTITY#${id}`),
  SK: s('#META'),
  entity_id: s(id),
  name: s(id),
  parent_id: {NULL: true},
  metadata: {M: metadata},
  created_at: s('2026-01-01T00:00:00Z'),
})

const config = (resource: string, capacity: string): Item => ({
  PK: s(`RESOURCE#${resource}`),
  SK: s('#CONFIG'),
  resource: s(resource),
  config_version: n(1),
  l_rpm_cp: {N: capacity},
  l_rpm_ra: n(1),
  l_rpm_rp: n(60),
})

describeOnEngine('old records that the current layout cannot hold', () => {
  const rf = {N: '99999999999999999'}
  const scene = useOldTable(4, ({nowMs}) => [
    // As large as an item can be; the copy would have longer keys and a mark.
    entity('large', {note: s('x'.repeat(400 * 1024 - 150))}),
    entity('small'),
    config('huge', '1e21'),
    config('fine', '10'),
    {...oldBucketItem('ENTITY#late', 60, nowMs, 'composite'), rf},
    oldBucketItem('ENTITY#small', 60, nowMs, 'composite'),
  ])
  const unmovable = ['ENTITY#large #META', 'ENTITY#late #BUCKET#gpt-4', 'RESOURCE#huge #CONFIG']

  it('are listed, and do not stop the others', async () => {
    const {finished, conflicts} = await scene.migrate()
    expect(finished).toBe(true)
    expect(conflicts.shown.map(({key}) => key).sort()).toEqual(unmovable)
    expect(conflicts.shown.map(({state}) => state)).toEqual(Array(3).fill('unmovable'))
    expect(conflicts.shown.map(({reason}) => reason)).toContainEqual(expect.stringMatching(/not an exact integer/))
    expect(conflicts.shown.map(({reason}) => reason)).toContainEqual(expect.stringMatching(/DynamoDB allows 409600/))
    expect((await scene.census()).current).toMatchObject({entity: 1, limits: 1, bucket: 1})
  })

  it('are differences, marked as unmovable', async () => {
    const {clean, differences} = await scene.verify()
    expect(clean).toBe(false)
    expect(differences.shown.map(({key}) => key).sort()).toEqual(unmovable)
    expect(differences.shown.map(({state}) => state)).toEqual(Array(3).fill('unmovable'))
  })

  it('are reported by status', async () => {
    const {old, conflicts} = await surveyTable(scene.table, {ourVersion: '0.3.0'})
    expect(conflicts.map(({key}) => key).sort()).toEqual(unmovable)
    expect(old.reduce((sum, row) => sum + row.conflicts, 0)).toBe(3)
  })
})

describeOnEngine('an old record whose key is too long for a namespace prefix', () => {
  // DynamoDB allows 2048 bytes.
  const long = 'x'.repeat(2048 - 'ENTITY#'.length)
  const scene = useOldTable(4, ({nowMs}) => [
    entity(long),
    entity('small'),
    oldBucketItem(`ENTITY#${long}`, 60, nowMs, 'composite'),
    oldBucketItem('ENTITY#small', 60, nowMs, 'composite'),
  ])

  it('is listed, and does not stop the others', async () => {
    const {finished, conflicts} = await scene.migrate()
    expect(finished).toBe(true)
    expect(conflicts.shown.map(({key, state}) => [key, state]).sort()).toEqual([
      [`ENTITY#${long} #BUCKET#gpt-4`, 'unmovable'],
      [`ENTITY#${long} #META`, 'unmovable'],
    ])
    expect((await scene.census()).current).toMatchObject({entity: 1, bucket: 1})
    expect(await scene.verify()).toMatchObject({clean: false, unmovable: 2, differences: {count: 2}})
    expect((await scene.cleanUp()).deleted).toEqual({entity: 1, bucket: 1})
    expect((await scene.census()).old).toEqual({entity: 1, bucket: 1})
  })
})

const usage = (start: string, tokens: string): Item => ({
  PK: s('ENTITY#small'),
  SK: s(`#USAGE#gpt-4#${start}`),
  entity_id: s('small'),
  resource: s('gpt-4'),
  window: s('hourly'),
  window_start: s(start),
  rpm: {N: tokens},
  total_events: n(1),
})

describeOnEngine('a clean-up with records that cannot be moved', () => {
  const scene = useOldTable(4, () => [
    config('huge', '1e21'),
    config('fine', '10'),
    entity('small'),
    usage('2026-06-10T05:00:00Z', '1e21'),
    usage('2026-06-11T05:00:00Z', '7'),
  ])

  it('deletes the others', async () => {
    await scene.migrate()
    expect(await scene.verify()).toMatchObject({clean: false, unmovable: 2, differences: {count: 2}})
    const {deleted, left} = await scene.cleanUp()
    expect(deleted).toEqual({entity: 1, limits: 1, usage: 1})
    expect(left.shown.map(({key}) => key).sort()).toEqual([
      'ENTITY#small #USAGE#gpt-4#2026-06-10T05:00:00Z',
      'RESOURCE#huge #CONFIG',
    ])
    expect((await scene.census()).old).toEqual({limits: 1, usage: 1})
  })
})
