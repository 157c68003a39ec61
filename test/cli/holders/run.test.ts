import {beforeEach, expect, it} from 'vitest'
import {listHolders} from '../../../src/lib/cli/holders/run.js'
import {Scene} from '../../helpers/limiter.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'

describeOnBoth('the list of holders', {}, table => {
  let scene: Scene
  beforeEach(async () => {
    scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'parallel=3/inflight')
  })

  it('leaves out a process that ends while beats are compared', async () => {
    const limiter = scene.limiter()
    const lease = await limiter.acquire({entity: 'user-1', resource: 'gpt-4', consume: {}})
    const request = {limit: undefined, cursor: undefined, slots: false}
    expect((await listHolders(scene.tenant, {...request, wait: false})).rows).toMatchObject([{state: 'unknown'}])
    const sleep = async () => {
      if (!lease.isEnded) await lease.commit()
      await limiter.close()
    }
    const {rows} = await listHolders({...scene.tenant, backoff: {random: Math.random, sleep}}, {...request, wait: true})
    expect(rows).toEqual([])
  })
})
