import {describe, expect, it} from 'vitest'
import {OldLocations} from '../../../src/lib/migrate/records/finding.js'
import {openMigrationContext, takeMigrationLease} from '../../../src/lib/migrate/walk/lease.js'
import {runPass} from '../../../src/lib/migrate/walk/pass.js'
import {STEPS} from '../../../src/lib/migrate/walk/steps.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {describeOnEngine} from '../../helpers/table.js'
import {generation5Items} from '../fixtures/generation-5.js'
import {makePopulation} from '../fixtures/make-population.js'
import {mixtureItems} from '../fixtures/mixture.js'
import {itemsOf} from '../fixtures/old-table.js'
import {type OldTableScene, useOldTable} from '../old-table-scene.js'

/** Runs one pass of each step that copies; the passes share their knowledge of the table, as in a run. */
class CountingRun {
  /** The items that the last pass got from the engine, by operation, and how often each was classified. */
  read = {Scan: new Set<Item>(), Query: new Set<Item>()}
  classified = new Map<Item, number>()
  readonly #locations = new OldLocations()

  constructor(readonly scene: OldTableScene) {}

  async pass(id: 'configuration' | 'data' | 'catch-up'): Promise<void> {
    const {scene} = this
    this.read = {Scan: new Set(), Query: new Set()}
    this.classified = new Map()
    scene.transport = {
      send: async (operation, input, options) => {
        const response = await scene.own.send(operation, input, options)
        const {Items = []} = response as {Items?: Item[]}
        for (const item of Items) (operation === 'Scan' ? this.read.Scan : this.read.Query).add(item)
        return response
      },
    }
    const lease = await takeMigrationLease(scene.table, id, {owner: 'test'})
    const step = STEPS.find(each => each.id === id) as (typeof STEPS)[number]
    await lease.save({position: undefined})
    await runPass(step, {open: () => this.#open(), lease, copiedAgain: new Map()})
    await lease.release()
    scene.transport = scene.own
  }

  async #open() {
    const context = await openMigrationContext(this.scene.table)
    const classify = (item: Item) => {
      this.classified.set(item, (this.classified.get(item) ?? 0) + 1)
      return context.classify(item)
    }
    return {...context, classify, locations: this.#locations}
  }
}

const PASSES = ['configuration', 'data', 'catch-up'] as const

describeOnEngine('a pass over the table', () => {
  const population = makePopulation({entities: 4})
  /** Everything has a namespace, and none of them is called "default". */
  const withoutDefault = () =>
    generation5Items(population).filter(({SK}) => !JSON.stringify(SK).includes('#NAMESPACE#'))
  const mixed = useOldTable(4, () => mixtureItems(population), population)
  const unregistered = useOldTable(5, withoutDefault, population)
  const uniform = useOldTable(4, () => itemsOf(4, population), population)

  describe.each([
    ['of several layouts', mixed],
    ['without a namespace "default"', unregistered],
  ])('%s', (_, scene) => {
    it('classifies every item once, whether it was scanned or queried', async () => {
      await scene.migrate({until: 'namespaces'})
      const run = new CountingRun(scene)
      for (const id of PASSES) {
        await run.pass(id)
        const {Scan, Query} = run.read
        expect(Scan.size).toBeGreaterThan(10)
        expect([...Scan, ...Query].filter(item => run.classified.get(item) !== 1)).toEqual([])
        expect([...run.classified.values()].filter(calls => calls !== 1)).toEqual([])
      }
    })
  })

  it('calls the classifier as often as it reads an item, where each record is a single item', async () => {
    await uniform.migrate({until: 'namespaces'})
    const run = new CountingRun(uniform)
    for (const id of PASSES) await run.pass(id)
    const {Scan, Query} = run.read
    const calls = [...run.classified.values()].reduce((sum, count) => sum + count, 0)
    expect(calls).toBe(Scan.size + Query.size)
    // Usage is compared by series; those of a partition that is on the page as a whole are not queried.
    expect(Query.size).toBe(0)
  })
})
