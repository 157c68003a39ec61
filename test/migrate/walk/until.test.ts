import {expect, it} from 'vitest'
import {readMigration} from '../../../src/lib/migrate/walk/lease.js'
import {describeOnEngine} from '../../helpers/table.js'
import {itemsOf} from '../fixtures/old-table.js'
import {useOldTable} from '../old-table-scene.js'

describeOnEngine('a run with --until', () => {
  const scene = useOldTable(4, population => itemsOf(4, population))

  it('does nothing when that step, or a later one, is done already', async () => {
    const first = await scene.migrate({until: 'configuration'})
    expect(first.finished).toBe(false)
    const contents = async () => (await scene.items()).filter(({SK}) => SK && 'S' in SK && SK.S !== '#MIGRATION')
    const before = await contents()
    for (const until of ['configuration', 'indexes'] as const) {
      const again = await scene.migrate({until})
      expect(again).toMatchObject({finished: false, steps: first.steps, conflicts: {count: 0}})
      expect(await contents()).toEqual(before)
      expect(await readMigration(scene.table)).toMatchObject({step: 'limits', leaseUntilMs: 0, finishedAt: undefined})
    }
    expect(await scene.migrate({until: 'version'})).toMatchObject({finished: true, resumed: true})
  })
})
