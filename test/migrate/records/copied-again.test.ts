import {expect, it} from 'vitest'
import {Repository} from '../../../src/lib/repository/repository.js'
import {describeOnEngine} from '../../helpers/table.js'
import {itemsOf} from '../fixtures/old-table.js'
import {useOldTable} from '../old-table-scene.js'

describeOnEngine('a record that a current client deletes while the old item exists', () => {
  const scene = useOldTable(4, population => itemsOf(4, population))

  it('is copied again by the next run, which reports it', async () => {
    expect((await scene.migrate({until: 'data'})).copiedAgain).toEqual({})
    expect((await scene.migrate()).copiedAgain).toEqual({})
    expect((await scene.migrate()).copiedAgain).toEqual({})
    const repository = new Repository({stack: scene.name, transport: scene.own, clock: () => scene.nowMs})
    const {entities} = await repository.namespace('default')
    const entity = scene.population.entities.find(({parent}) => parent !== undefined)?.id ?? ''
    await entities.delete(entity)
    expect(await entities.get(entity)).toBeUndefined()
    const {copiedAgain, settled} = await scene.migrate()
    expect({copiedAgain, settled}).toEqual({copiedAgain: expect.objectContaining({entity: 1}), settled: true})
    expect(await entities.get(entity)).toMatchObject({entity})
    expect((await scene.migrate()).copiedAgain).toEqual({})
  })
})
