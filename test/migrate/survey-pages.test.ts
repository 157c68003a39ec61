import {beforeAll, expect, it} from 'vitest'
import type {Transport} from '../../src/lib/dynamo/transport.js'
import {surveyTable} from '../../src/lib/migrate/survey.js'
import {Namespaces} from '../../src/lib/repository/namespaces/namespaces.js'
import {s} from '../../src/lib/schema/attribute-value.js'
import {describeOnEngine} from '../helpers/table.js'
import {writeItems} from './fixtures/old-table.js'
import {oldBucketItem} from './old-clients.js'
import {type OldTableScene, useOldTable, VERSION} from './old-table-scene.js'

const BUCKETS = 24
const ITEMS_PER_PAGE = 10

/** Small pages, so that the items of one bucket are on several; reports the number of items of each query. */
const inSmallPages = (scene: OldTableScene, onQuery: (items: number) => void = () => {}): Transport => ({
  async send(operation, input, options) {
    const request = operation === 'Scan' ? {...input, Limit: ITEMS_PER_PAGE} : input
    const response = await scene.own.send(operation, request, options)
    if (operation === 'Query') onQuery((response as {Items?: unknown[]}).Items?.length ?? 0)
    return response
  },
})

describeOnEngine('a survey of a table of many pages', () => {
  const scene = useOldTable(5, () => [])
  beforeAll(async () => {
    const {id} = (await new Namespaces(scene.table).register('default')).namespace
    const entities = Array.from({length: BUCKETS}, (_, at) => `ENTITY#user-${at}`)
    await writeItems({name: scene.name, transport: scene.own}, [
      ...entities.map(PK => oldBucketItem(PK, 50, scene.nowMs, 'composite')),
      ...entities.map(PK => oldBucketItem(`${id}/${PK}`, 60, scene.nowMs, 'composite')),
    ])
    scene.transport = inSmallPages(scene)
  })

  it('counts the items of a bucket on all pages, and the bucket once', async () => {
    const {old} = await surveyTable(scene.table, {ourVersion: VERSION})
    expect(old).toMatchObject([
      {type: 'bucket', generation: 3, items: BUCKETS, pending: BUCKETS},
      {type: 'bucket', generation: 5, items: BUCKETS, pending: BUCKETS},
    ])
    expect(old.reduce((sum, {records}) => sum + records, 0)).toBe(BUCKETS)
    expect(old.reduce((sum, {groups}) => sum + groups, 0)).toBe(BUCKETS)
  })

  it('finds nothing pending after a run', async () => {
    await scene.migrate()
    const {old} = await surveyTable(scene.table, {ourVersion: VERSION})
    expect(old.map(({items, pending}) => [items, pending])).toEqual([
      [BUCKETS, 0],
      [BUCKETS, 0],
    ])
  })
})

describeOnEngine('a survey of an entity with many resources', () => {
  const scene = useOldTable(4, ({nowMs}) =>
    Array.from({length: BUCKETS}, (_, at) => ({
      ...oldBucketItem('ENTITY#user-1', 50, nowMs, 'composite'),
      SK: s(`#BUCKET#model-${at}`),
      resource: s(`model-${at}`),
    })),
  )

  it('queries no more of them at once than are on a page', async () => {
    const queried: number[] = []
    scene.transport = inSmallPages(scene, items => queried.push(items))
    const {old} = await surveyTable(scene.table, {ourVersion: VERSION})
    expect(old).toMatchObject([{type: 'bucket', items: BUCKETS, pending: BUCKETS}])
    expect(Math.max(...queried)).toBe(ITEMS_PER_PAGE)
  })
})
