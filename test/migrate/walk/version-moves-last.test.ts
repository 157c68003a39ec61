import {expect, it} from 'vitest'
import {STEP_IDS} from '../../../src/lib/migrate/walk/steps.js'
import {readVersion} from '../../../src/lib/repository/table/version.js'
import {describeOnEngine} from '../../helpers/table.js'
import {makePopulation} from '../fixtures/make-population.js'
import {itemsOf} from '../fixtures/old-table.js'
import {useOldTable} from '../old-table-scene.js'

describeOnEngine('C-8: the recorded version changes only after everything is copied', () => {
  const scene = useOldTable(4, population => itemsOf(4, population), makePopulation({entities: 3}))
  const newer = useOldTable(5, population => itemsOf(5, population), makePopulation({entities: 3}))

  it('changes in the last step only', async () => {
    for (const until of STEP_IDS.slice(0, -1)) {
      expect((await scene.migrate({until})).finished).toBe(false)
      expect(await readVersion(scene.table)).toMatchObject({record: undefined, hasLegacyRecord: true})
    }
    expect((await scene.verify()).clean).toBe(false)
    expect((await scene.migrate()).finished).toBe(true)
    expect((await readVersion(scene.table)).record).toMatchObject({schemaVersion: '0.9.0', clientMinVersion: '0.0.0'})
    expect((await scene.verify()).clean).toBe(true)
  })

  it('does not change when a step fails', async () => {
    const before = (await readVersion(newer.table)).record
    newer.transport = {
      send: (operation, input, options) => {
        if (operation === 'PutItem' && JSON.stringify(input).includes('BUCKET#')) throw new Error('the disk is full')
        return newer.own.send(operation, input, options)
      },
    }
    await expect(newer.migrate()).rejects.toThrow('the disk is full')
    newer.transport = newer.own
    expect((await readVersion(newer.table)).record).toEqual(before)
    expect(before?.schemaVersion).toBe('0.8.0')
    await newer.migrate()
    expect((await readVersion(newer.table)).record).toMatchObject({
      schemaVersion: '0.9.0',
      lambdaVersion: before?.lambdaVersion,
    })
  })
})
