import {randomUUID} from 'node:crypto'
import {afterAll, beforeAll, expect, it} from 'vitest'
import {DEFAULT_PACE, planMigration} from '../../src/lib/migrate/plan.js'
import {resolveConflict} from '../../src/lib/migrate/resolve.js'
import {surveyTable} from '../../src/lib/migrate/survey.js'
import {type Item, n, s} from '../../src/lib/schema/attribute-value.js'
import {describeOnEngine} from '../helpers/table.js'
import {makePopulation} from './fixtures/make-population.js'
import {itemsOf} from './fixtures/old-table.js'
import {OldTableScene, useOldTable, VERSION} from './old-table-scene.js'

const orders: Item[] = Array.from({length: 40}, (_, at) => ({
  PK: s(`CUSTOMER#${at}`),
  SK: s(`ORDER#${at}`),
  total: n(at),
  ttl: n(1),
}))

const refusal = {code: 'migrate.not-a-limiter-table', kind: 'conflict'}

/** Everything that `zael migrate` can do to a table. */
const commands = (scene: OldTableScene): [string, () => Promise<unknown>][] => [
  ['run', () => scene.migrate()],
  ['cleanup', () => scene.cleanUp()],
  ['verify', () => scene.verify()],
  ['status and plan', () => surveyTable(scene.table, {ourVersion: VERSION})],
  ['resolve', () => resolveConflict(scene.table, 'CUSTOMER#1 #META', 'old', {ourVersion: VERSION})],
]

async function descriptionOf({own, name}: OldTableScene): Promise<unknown> {
  const {Table: {KeySchema, GlobalSecondaryIndexes, StreamSpecification} = {}} = await own.send('DescribeTable', {
    TableName: name,
  })
  const {TimeToLiveDescription} = await own.send('DescribeTimeToLive', {TableName: name})
  return {KeySchema, GlobalSecondaryIndexes, StreamSpecification, TimeToLiveDescription}
}

describeOnEngine('a table that does not belong to a rate limiter', () => {
  const foreign = useOldTable(1, () => orders)
  const empty = useOldTable(1, () => [])
  const unversioned = useOldTable(3, population =>
    itemsOf(3, population).filter(({SK}) => !(SK && 'S' in SK && SK.S === '#VERSION')),
  )
  const otherKeys = new OldTableScene(makePopulation({entities: 1}))
  Object.assign(otherKeys, {name: `orders-${randomUUID()}`})
  beforeAll(() =>
    otherKeys.own.send('CreateTable', {
      TableName: otherKeys.name,
      KeySchema: [{AttributeName: 'id', KeyType: 'HASH'}],
      AttributeDefinitions: [{AttributeName: 'id', AttributeType: 'S'}],
      BillingMode: 'PAY_PER_REQUEST',
    }),
  )
  afterAll(async () => {
    await otherKeys.own.send('DeleteTable', {TableName: otherKeys.name})
    await otherKeys.own.close()
  })

  it.each(commands(foreign))('is refused by %s, without a write', async (_, command) => {
    const before = [await foreign.items(), await descriptionOf(foreign)]
    await expect(command()).rejects.toMatchObject(refusal)
    expect([await foreign.items(), await descriptionOf(foreign)]).toEqual(before)
  })

  it.each(commands(otherKeys))('is refused by %s when it has other keys', async (_, command) => {
    await expect(command()).rejects.toMatchObject({...refusal, message: expect.stringContaining('id')})
  })

  it('is searched for ten pages at most', async () => {
    let pages = 0
    foreign.transport = {
      send: (operation, input, options) => {
        if (operation !== 'Scan') return foreign.own.send(operation, input, options)
        pages++
        return foreign.own.send(operation, {...input, Limit: 2} as typeof input, options)
      },
    }
    await expect(foreign.migrate()).rejects.toMatchObject(refusal)
    foreign.transport = foreign.own
    expect(pages).toBe(10)
  })

  it('is accepted when it is empty', async () => {
    const survey = await surveyTable(empty.table, {ourVersion: VERSION})
    expect(planMigration(survey, DEFAULT_PACE).isPending).toBe(true)
    expect(await empty.migrate()).toMatchObject({finished: true})
  })

  it('is accepted without a version record when it has known records', async () => {
    expect(await unversioned.migrate()).toMatchObject({finished: true})
    expect((await unversioned.verify()).clean).toBe(true)
  })
})
