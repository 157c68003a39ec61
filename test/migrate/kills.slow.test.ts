import {expect, inject, it} from 'vitest'
import {STEP_IDS} from '../../src/lib/migrate/walk/steps.js'
import type {Item} from '../../src/lib/schema/attribute-value.js'
import {describeOnEngine} from '../helpers/table.js'
import {seededRandom} from '../limiter/fixtures/seeded-random.js'
import {runUntil, useMigrationProgram} from './fixtures/killed-run.js'
import {makePopulation} from './fixtures/make-population.js'
import {migrateCounted} from './fixtures/migrate-counted.js'
import {mixtureItems, strangers} from './fixtures/mixture.js'
import {makeOldTable, writeItems} from './fixtures/old-table.js'
import {keyText, OldTableScene} from './old-table-scene.js'

const POPULATION = makePopulation({entities: 8})
const ITEMS = [...mixtureItems(POPULATION), ...strangers]

/** Everything except the migration record and timestamps. */
async function contents(scene: OldTableScene): Promise<Item[]> {
  const items = (await scene.items()).filter(item => !keyText(item).includes('#MIGRATION'))
  return items.map(item => {
    const isOurs = keyText(item).includes('"_/SYSTEM#"')
    return isOurs ? {...item, updated_at: {S: ''}, created_at: {S: ''}} : item
  })
}

async function onTable<T>(work: (scene: OldTableScene) => Promise<T>): Promise<T> {
  const scene = new OldTableScene(POPULATION)
  try {
    await makeOldTable({name: scene.name, transport: scene.own}, 3)
    await writeItems({name: scene.name, transport: scene.own}, ITEMS)
    return await work(scene)
  } finally {
    await scene.own.send('DeleteTable', {TableName: scene.name})
    await scene.own.close()
  }
}

const runToEnd = (scene: OldTableScene) => migrateCounted(inject('engineEndpoint'), scene.name, scene.nowMs)

describeOnEngine('a migration that is killed', () => {
  useMigrationProgram()

  it('ends in the same state as an uninterrupted one, wherever it was killed', {timeout: 900_000}, async () => {
    const whole = await onTable(async scene => {
      const requests = await runToEnd(scene)
      expect((await scene.verify()).clean).toBe(true)
      return {items: await contents(scene), requests}
    })
    expect(whole.items.length).toBeGreaterThan(ITEMS.length)

    const random = seededRandom(11)
    const anywhere = Array.from({length: 20}, (_, at) => [
      String(1 + Math.floor(random() * whole.requests)),
      at % 2 === 0 ? 'before' : 'after',
    ])
    const boundaries = STEP_IDS.slice(1).map(step => [step, 'after'])
    let killed = 0
    for (const point of [...anywhere, ...boundaries]) {
      await onTable(async scene => {
        if ((await runUntil(scene, point)) === 'SIGKILL') killed++
        // Its lease has to expire first.
        scene.nowMs += 3_600_001
        await runToEnd(scene)
        expect({point, items: await contents(scene)}).toEqual({point, items: whole.items})
      })
    }
    // Requests are concurrent, so the last ones of a shorter run may not be reached.
    expect(killed).toBeGreaterThanOrEqual(anywhere.length + boundaries.length - 2)
  })
})
