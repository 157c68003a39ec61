import {expect, it} from 'vitest'
import {Repository} from '../../../src/lib/repository/repository.js'
import {readString} from '../../../src/lib/schema/read.js'
import {describeOnEngine} from '../../helpers/table.js'
import {itemsOf} from '../fixtures/old-table.js'
import {useOldTable} from '../old-table-scene.js'

describeOnEngine('what a client of today deletes beside the old item', () => {
  const scene = useOldTable(4, population => itemsOf(4, population))

  it('is there again after the next run, which says so', async () => {
    expect((await scene.migrate({until: 'data'})).copiedAgain).toEqual({})
    expect((await scene.migrate()).copiedAgain).toEqual({})
    expect((await scene.migrate()).copiedAgain).toEqual({})
    const repository = new Repository({stack: scene.name, transport: scene.own, clock: () => scene.nowMs})
    const {entities} = await repository.namespace('default')
    const old = (await scene.items()).find(item => /^ENTITY#/.test(readString(item, 'PK') ?? ''))
    const entity = readString(old ?? {}, 'entity_id') ?? ''
    await entities.delete(entity)
    expect(await entities.get(entity)).toBeUndefined()
    const {copiedAgain, settled} = await scene.migrate()
    expect({copiedAgain, settled}).toEqual({copiedAgain: expect.objectContaining({entity: 1}), settled: true})
    expect(await entities.get(entity)).toMatchObject({entity})
    expect((await scene.migrate()).copiedAgain).toEqual({})
  })
})
