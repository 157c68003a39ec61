import {describe, expect, it} from 'vitest'
import {isRead, type Transport} from '../../src/lib/dynamo/transport.js'
import {type FaultKind, FaultTransport} from '../helpers/fault-transport.js'
import {describeOnEngine} from '../helpers/table.js'
import {expectMigrated} from './expect-migrated.js'
import {expectedOf} from './fixtures/expected.js'
import {makePopulation} from './fixtures/make-population.js'
import {itemsOf} from './fixtures/old-table.js'
import {useOldTable} from './old-table-scene.js'

const KINDS: FaultKind[] = ['lost after apply', 'lost before apply', 'overtaken', '5xx']

/** Injects a fault into every third write. */
function faulty(inner: Transport, kind: FaultKind): {transport: Transport; hits: () => number} {
  const faults = new FaultTransport(inner)
  let writes = 0
  let hits = 0
  const send: Transport['send'] = (operation, input, options) => {
    if (!isRead(operation) && ++writes % 3 === 0) {
      faults.start({kind, at: 1})
      hits++
    }
    return faults.send(operation, input, options)
  }
  return {transport: {send}, hits: () => hits}
}

describeOnEngine('S6: when every third write of a migration fails', () => {
  describe.each(KINDS)('with %s', kind => {
    const scene = useOldTable(3, population => itemsOf(3, population), makePopulation({entities: 4}))

    it('everything is copied exactly once', async () => {
      const {transport, hits} = faulty(scene.own, kind)
      scene.transport = transport
      expect(await scene.migrate()).toMatchObject({finished: true, conflicts: {count: 0}})
      expect(hits()).toBeGreaterThan(20)
      scene.transport = scene.own
      expect((await scene.verify()).differences.shown).toEqual([])
      await expectMigrated(scene, expectedOf(scene.population, 3))
    })
  })
})
