import {describe, expect, it} from 'vitest'
import {drainOf} from '../../../src/lib/live/screen/detail-panel.js'
import {bucketOf, readingOf} from '../support.js'

const child = (entity: string, rate: number | undefined, consumed: number, chargedTo = 'team#r') =>
  readingOf(bucketOf(`${entity}#r`, {limits: {tpm: {capacity: 100, consumed}}}), {
    chargedTo,
    ratePerSecond: rate === undefined ? new Map() : new Map([['tpm', rate]]),
  })

const drain = (...children: ReturnType<typeof child>[]) =>
  drainOf({readings: new Map(children.map(each => [each.id, each]))}, 'team#r', 'tpm')

describe('the children that drain a parent', () => {
  it('rank by their current use of the limit', () => {
    expect(drain(child('a', 10, 9), child('b', 30, 1), child('idle', 0, 500), child('x', 9, 9, 'other#r'))).toEqual({
      basis: 'rate',
      children: [
        {entity: 'b', share: 0.75, ratePerSecond: 30},
        {entity: 'a', share: 0.25, ratePerSecond: 10},
      ],
    })
  })

  it('rank by their total use while the limit is idle, as with an empty quota', () => {
    expect(drain(child('a', 0, 100), child('b', undefined, 300), child('new', 0, 0), child('refund', -5, 0))).toEqual({
      basis: 'total',
      children: [
        {entity: 'b', share: 0.75, ratePerSecond: null},
        {entity: 'a', share: 0.25, ratePerSecond: 0},
      ],
    })
    expect(drain().children).toEqual([])
  })
})
