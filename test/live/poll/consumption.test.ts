import {describe, expect, it} from 'vitest'
import type {Reading} from '../../../src/lib/live/model/model.js'
import {resourcesAt, totalConsumption, totalsAt} from '../../../src/lib/live/model/totals.js'
import {bucketOf, READ_AT_MS, readingOf} from '../support.js'

/** A bucket with rates; `parent` is charged for the same requests. */
function used(entity: string, rates: Readonly<Record<string, number>>, parent?: string): Reading {
  return readingOf(bucketOf(`${entity}#gpt-4`, {limits: {rpm: {capacity: 100}, tpm: {capacity: 1000}}}), {
    ratePerSecond: new Map(Object.entries(rates)),
    chargedTo: parent === undefined ? undefined : `${parent}#gpt-4`,
  })
}

const together = (...readings: Reading[]) => Object.fromEntries(totalConsumption(readings))

describe('total consumption', () => {
  it('counts a request once that is also charged to a parent', () => {
    const children = [used('ada', {rpm: 1, tpm: 900}, 'team'), used('ben', {rpm: 2, tpm: 100}, 'team')]
    // Four requests per second went to the team itself.
    expect(together(...children, used('team', {rpm: 7, tpm: 1000}))).toEqual({rpm: 7, tpm: 1000})
    expect(together(used('team', {rpm: 7, tpm: 1000}), ...children, used('eve', {tpm: 5}))).toEqual({
      rpm: 7,
      tpm: 1005,
    })
  })

  it('counts a child whose parent is not watched, was read only once, or lacks the limit', () => {
    const ada = used('ada', {rpm: 1, tpm: 900}, 'team')
    expect(together(ada)).toEqual({rpm: 1, tpm: 900})
    expect(together(ada, used('team', {}))).toEqual({rpm: 1, tpm: 900})
    expect(together(ada, used('team', {tpm: 900}))).toEqual({rpm: 1, tpm: 900})
  })

  it('counts a child whose requests are charged to its parent but not to its grandparent', () => {
    const ada = used('ada', {tpm: 30}, 'team')
    const team = used('team', {tpm: 50}, 'firm') // 20 of its own
    const firm = used('firm', {tpm: 25}) // 5 of its own
    expect(together(ada, team, firm)).toEqual({tpm: 30 + 20 + 5})
    const owner = used('owner', {tpm: 6}) // 1 of its own
    const owned = used('firm', {tpm: 25}, 'owner')
    expect(together(ada, team, owned, owner)).toEqual({tpm: 30 + 20 + 5 + 1})
  })

  it('ends with parents in a cycle', () => {
    const cycle = [used('a', {tpm: 3}, 'b'), used('b', {tpm: 3}, 'a'), used('c', {tpm: 3}, 'c')]
    expect(together(...cycle).tpm).toBeTypeOf('number')
  })

  it('is used for totals and resources; a deleted parent does not count', () => {
    const readings = [used('ada', {tpm: 900}, 'team'), used('team', {tpm: 900})]
    expect(totalsAt(readings, READ_AT_MS).ratePerSecond).toEqual(new Map([['tpm', 900]]))
    expect(resourcesAt(readings, READ_AT_MS)[0]?.ratePerSecond).toEqual(new Map([['tpm', 900]]))
    const orphaned = [used('ada', {tpm: 900}, 'team'), {...used('team', {tpm: 50}), isGone: true}]
    expect(totalsAt(orphaned, READ_AT_MS).ratePerSecond).toEqual(new Map([['tpm', 900]]))
    expect(resourcesAt(orphaned, READ_AT_MS)[0]?.ratePerSecond).toEqual(new Map([['tpm', 900]]))
  })
})
