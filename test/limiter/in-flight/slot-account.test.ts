import {expect, it} from 'vitest'
import type {Holder} from '../../../src/lib/limiter/holders/holder.js'
import {SlotAccount} from '../../../src/lib/limiter/holders/slot-account.js'

it('S12 a refused write that returns as many slots as it takes leaves the return due', () => {
  const nothing = () => {}
  const nextNumber = () => ({number: 1, nonce: 'a'})
  const holder = {id: 'h', isLost: false, nextNumber, hold: nothing, release: nothing} as unknown as Holder
  const account = new SlotAccount({current: holder} as never)
  const slots = new Map([['parallel', 1]])
  account.noteApplied(holder, slots)
  void account.giveBack({address: {entity: 'e', resource: 'r', shard: 0}, holder, slots})
  account.hurry()
  const limits = new Map([['parallel', {capacity: 1, free: 0}]])
  account.change({slots: {limits, accounts: new Map([['h', {text: '0.a parallel:1', held: slots}]])}}, slots)
  account.noteRefused()
  expect([account.isDue, account.isEmpty]).toEqual([true, false])
})
