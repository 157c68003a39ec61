import {beforeAll, expect, it} from 'vitest'
import {
  cleanUpWithProgress,
  migrateWithProgress,
  resolveAllWithProgress,
  verifyWithProgress,
} from '../../../src/lib/cli/migrate/run.js'
import type {Operation} from '../../../src/lib/dynamo/transport.js'
import {s} from '../../../src/lib/schema/attribute-value.js'
import {connectToEngine, describeOnEngine} from '../../helpers/table.js'
import {makePopulation} from '../../migrate/fixtures/make-population.js'
import {itemsOf} from '../../migrate/fixtures/old-table.js'
import {useOldTable, VERSION} from '../../migrate/old-table-scene.js'

describeOnEngine('Ctrl-C', () => {
  const population = makePopulation({entities: 3})
  const scene = useOldTable(4, () => itemsOf(4, population), population, connectToEngine)
  beforeAll(() => scene.migrate())

  /** Presses it when the first request of that kind is about to be sent. */
  const pressAt = (wanted: Operation) => {
    let isPressed = false
    scene.transport = {
      send: (operation, input, options) => {
        if (operation === wanted && !isPressed) {
          isPressed = true
          process.emit('SIGINT')
        }
        return scene.own.send(operation, input, options)
      },
    }
  }
  const request = {ourVersion: VERSION, rateLimit: undefined, confirm: async () => {}}

  it('reports that nothing was deleted while a clean-up compares, and does not ask', async () => {
    const before = await scene.items()
    pressAt('Scan')
    await expect(cleanUpWithProgress(scene.table, 'prod', request)).rejects.toMatchObject({
      code: 'migrate.interrupted',
      kind: 'interrupted',
      message: 'Interrupted. Nothing was deleted.',
      hint: 'Resume: zael migrate cleanup -s prod',
    })
    pressAt('Scan')
    await expect(verifyWithProgress(scene.table, {ourVersion: VERSION, mustBeClean: true})).rejects.toMatchObject({
      kind: 'interrupted',
    })
    expect(await scene.items()).toEqual(before)
  })

  it('reports that some items may be gone while a clean-up deletes', async () => {
    pressAt('DeleteItem')
    await expect(cleanUpWithProgress(scene.table, 'prod', request)).rejects.toMatchObject({
      code: 'migrate.interrupted',
      message: expect.stringMatching(/^Interrupted: at least \d+ old items were deleted\.$/),
      hint: 'Resume: zael migrate cleanup -s prod',
    })
  })

  it('names the step while a migration runs', async () => {
    let scans = 0
    scene.transport = {
      send: (operation, input, options) => {
        if (operation === 'Scan' && ++scans === 2) process.emit('SIGINT')
        return scene.own.send(operation, input, options)
      },
    }
    const run = {
      ourVersion: VERSION,
      rateLimit: undefined,
      until: undefined,
      followMs: undefined,
      limitsFromBuckets: undefined,
    }
    await expect(migrateWithProgress(scene.table, 'prod', run)).rejects.toMatchObject({
      code: 'migrate.interrupted',
      kind: 'interrupted',
      message: expect.stringMatching(
        /^Interrupted in step "(namespaces|configuration|data)"\. Completed work is kept\.$/,
      ),
      hint: 'Resume: zael migrate run -s prod',
      details: {step: expect.stringMatching(/^(namespaces|configuration|data)$/)},
    })
  })

  it('reports how many conflicts are resolved', async () => {
    const [entity = {}] = (await scene.items()).filter(({PK, SK}) => {
      return PK && 'S' in PK && PK.S.startsWith('ENTITY#') && SK && 'S' in SK && SK.S === '#META'
    })
    const id = (entity.entity_id as {S: string}).S
    const isCopy = (PK: object) => 'S' in PK && String(PK.S).endsWith(`/ENTITY#${id}`)
    const [copy = {}] = (await scene.items()).filter(
      ({PK = s(''), SK}) => isCopy(PK) && SK && 'S' in SK && SK.S === '#META',
    )
    await scene.own.send('PutItem', {TableName: scene.name, Item: {...entity, name: s('Old')}})
    await scene.own.send('PutItem', {TableName: scene.name, Item: {...copy, name: s('New')}})
    pressAt('Scan')
    await expect(resolveAllWithProgress(scene.table, 'new', request)).rejects.toMatchObject({
      kind: 'interrupted',
      message: 'Interrupted. Nothing was resolved.',
    })
    pressAt('UpdateItem')
    await expect(resolveAllWithProgress(scene.table, 'new', request)).rejects.toMatchObject({
      kind: 'interrupted',
      message: 'Interrupted: at least 0 conflicts were resolved.',
    })
    scene.transport = scene.own
    expect(await resolveAllWithProgress(scene.table, 'new', request)).toMatchObject({settled: 1, left: {count: 0}})
  })
})
