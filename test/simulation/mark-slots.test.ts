import {describe, expect, it} from 'vitest'
import {scenarioOf} from './profiles.js'
import {run} from './run.js'
import {MarkSlots} from './world/mark-slots.js'

describe('mark slots', () => {
  it('differ between limiters in use, however often processes restart', () => {
    const slots = new MarkSlots(6, false)
    const inUse = [0, 1, 2, 3].map(process => slots.take(process))
    for (const process of [1, 1, 3, 1, 0, 2, 1, 1, 1, 0, 3]) {
      inUse[process] = slots.take(process)
      expect(new Set(inUse.map(({number}) => number)).size).toBe(4)
      for (const slot of inUse) slot.noteUse()
    }
    expect(slots.isShared).toBe(false)
  })

  it('are shared if a replaced limiter continues after its slot was reassigned', () => {
    const slots = new MarkSlots(3, false)
    const first = slots.take(0)
    slots.take(0)
    slots.take(0)
    first.noteUse()
    expect(slots.isShared).toBe(false)
    expect(slots.take(0).number).toBe(first.number)
    expect(slots.isShared).toBe(false)
    first.noteUse()
    expect(slots.isShared).toBe(true)
  })

  it('are shared if there are more limiters than slots, or on request', () => {
    const slots = new MarkSlots(2, false)
    for (const process of [0, 1]) slots.take(process)
    expect(slots.isShared).toBe(false)
    slots.take(2)
    expect(slots.isShared).toBe(true)
    const shared = new MarkSlots(6, true)
    expect([0, 1, 2].map(process => shared.take(process).number)).toEqual([0, 0, 0])
  })

  it('S5 do not collide after two restarts: an uncertain refund is decided', async () => {
    const {violations} = await run(scenarioOf('mixed', 20_302))
    expect(violations).toEqual([])
  })
})
