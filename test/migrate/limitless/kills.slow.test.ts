import {expect, inject, it} from 'vitest'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {describeOnEngine} from '../../helpers/table.js'
import {runUntil, useMigrationProgram} from '../fixtures/killed-run.js'
import {makePopulation} from '../fixtures/make-population.js'
import {migrateCounted, type RequestHooks} from '../fixtures/migrate-counted.js'
import {makeOldTable, writeItems} from '../fixtures/old-table.js'
import {keyText, OldTableScene} from '../old-table-scene.js'
import {limitlessItems} from './old-buckets.js'

const POPULATION = makePopulation({entities: 0})
const POINTS = 10

/** Everything except the record of progress, timestamps, revisions and the ids of events. */
async function contents(scene: OldTableScene): Promise<Item[]> {
  const items = (await scene.items()).filter(item => !/#MIGRATION/.test(keyText(item)))
  const plain = items.map(({updated_at: _, created_at: __, rv: ___, ...item}) => item)
  const isEvent = (item: Item) => /#AUDIT#/.test(keyText(item))
  const events = plain.filter(isEvent).map(({PK, details}) => ({PK, details}) as Item)
  const byText = (a: Item, b: Item) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1)
  return [...plain.filter(item => !isEvent(item)), ...events.sort(byText)]
}

async function onTable<T>(work: (scene: OldTableScene) => Promise<T>): Promise<T> {
  const scene = new OldTableScene(POPULATION)
  try {
    await makeOldTable({name: scene.name, transport: scene.own}, 1)
    await writeItems({name: scene.name, transport: scene.own}, limitlessItems(POPULATION))
    return await work(scene)
  } finally {
    await scene.own.send('DeleteTable', {TableName: scene.name})
    await scene.own.close()
  }
}

const runToEnd = (scene: OldTableScene, hooks?: RequestHooks) =>
  migrateCounted(inject('engineEndpoint'), scene.name, scene.nowMs, hooks, {limitsFromBuckets: {}})

/** The numbers of the first and the last request of the step that writes limits. */
function stepBounds(): RequestHooks & {first: number; last: number} {
  const bounds = {
    first: 0,
    last: 0,
    before: () => {},
    after: (input: object, number: number) => {
      const step = (input as {Item?: {step?: {S: string}}}).Item?.step?.S
      if (step === 'limits' && bounds.first === 0) bounds.first = number
      if (step === 'data' && bounds.last === 0) bounds.last = number
    },
  }
  return bounds
}

describeOnEngine('a migration that is killed while it writes limits from buckets', () => {
  useMigrationProgram()

  it('ends in the same state as an uninterrupted one', {timeout: 300_000}, async () => {
    const bounds = stepBounds()
    const whole = await onTable(async scene => {
      await runToEnd(scene, bounds)
      expect((await scene.verify()).limitless.buckets).toBe(0)
      return contents(scene)
    })
    const requests = bounds.last - bounds.first
    expect(requests).toBeGreaterThan(2 * POINTS)
    for (let at = 0; at < POINTS; at++) {
      const point = [
        String(bounds.first + Math.floor((at * requests) / (POINTS - 1))),
        at % 2 === 0 ? 'before' : 'after',
      ]
      await onTable(async scene => {
        expect({point, signal: await runUntil(scene, [...point, 'limits'])}).toEqual({point, signal: 'SIGKILL'})
        // Its lease has to expire first.
        scene.nowMs += 3_600_001
        await runToEnd(scene)
        expect({point, items: await contents(scene)}).toEqual({point, items: whole})
      })
    }
  })
})
