import {expect, it} from 'vitest'
import {type Item, n, readNumber, s} from '../../../src/lib/schema/attribute-value.js'
import {describeOnEngine} from '../../helpers/table.js'
import {oldBucketItem} from '../old-clients.js'
import {type OldTableScene, useOldTable} from '../old-table-scene.js'

/** 100 tokens, 100 a minute, for all entities. */
const config: Item = {
  PK: s('SYSTEM#'),
  SK: s('#CONFIG'),
  config_version: n(1),
  l_rpm_cp: n(100),
  l_rpm_bx: n(100),
  l_rpm_ra: n(100),
  l_rpm_rp: n(60),
}

const tokensAt = async (scene: OldTableScene, PK: RegExp): Promise<number | undefined> => {
  const item = (await scene.items()).find(each => PK.test((each.PK as {S: string}).S) && 'b_rpm_tk' in each)
  return item && readNumber(item, 'b_rpm_tk')
}

describeOnEngine('an old bucket that a forgotten client creates again after the clean-up', () => {
  const scene = useOldTable(4, ({nowMs}) => [config, oldBucketItem('ENTITY#user-1', 60, nowMs, 'composite')])

  it('is charged the missing tokens of the new one, not its total consumption', async () => {
    await scene.migrate()
    const limiter = scene.limiter()
    for (let minute = 0; minute < 30; minute++) {
      scene.nowMs += 60_000
      await limiter.acquire({entity: 'user-1', resource: 'gpt-4', consume: {rpm: 50}})
    }
    await scene.migrate()
    await scene.cleanUp()
    const recreated = {...oldBucketItem('ENTITY#user-1', 99, scene.nowMs, 'composite'), b_rpm_tc: n(1000)}
    await scene.own.send('PutItem', {TableName: scene.name, Item: recreated})
    await scene.migrate()
    // Both have the balance of a single bucket: 50 were consumed from the new one, and 1 from the old one.
    expect(await tokensAt(scene, /^ENTITY#user-1$/)).toBe(49_000)
    expect(await tokensAt(scene, /\/BUCKET#user-1#gpt-4#0$/)).toBe(49_000)
    expect((await scene.migrate()).steps.every(({written}) => written === 0)).toBe(true)
  })
})

describeOnEngine('a new bucket that a client creates before the old one is copied', () => {
  const scene = useOldTable(4, ({nowMs}) => [config, oldBucketItem('ENTITY#user-1', 50, nowMs, 'composite')])

  it('is not charged an amount that was computed for another refill instant', async () => {
    await scene.migrate({until: 'limits'})
    const limiter = scene.limiter(scene.own)
    const acquire = () => limiter.acquire({entity: 'user-1', resource: 'gpt-4', consume: {rpm: 1}})
    await acquire()
    let refused = 0
    scene.transport = {
      send: async (operation, input, options) => {
        const isCharge = /UpdateItem|TransactWriteItems/.test(operation) && JSON.stringify(input).includes('BUCKET#')
        // The old bucket lacks 50; a minute later it is full again, and so is the new one.
        if (isCharge && refused++ === 0) {
          scene.nowMs += 60_000
          await acquire()
        }
        return scene.own.send(operation, input, options)
      },
    }
    await scene.migrate({leaseMs: 3_600_000})
    scene.transport = scene.own
    expect(refused).toBeGreaterThan(1)
    expect(await tokensAt(scene, /\/BUCKET#user-1#gpt-4#0$/)).toBe(99_000)
  })
})
