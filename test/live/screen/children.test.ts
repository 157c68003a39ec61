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
      others: 0,
    })
  })

  it('rank by their total use while the limit is idle, as with an empty quota', () => {
    expect(drain(child('a', 0, 100), child('b', undefined, 300), child('new', 0, 0), child('refund', -5, 0))).toEqual({
      basis: 'total',
      children: [
        {entity: 'b', share: 0.75, ratePerSecond: null},
        {entity: 'a', share: 0.25, ratePerSecond: 0},
      ],
      others: 0,
    })
    expect(drain().children).toEqual([])
  })

  it('leave the rest to the parent itself, and to children that have moved', () => {
    const parent = readingOf(bucketOf('team#r', {limits: {tpm: {capacity: 100, consumed: 1000}}}), {})
    expect(drain(parent, child('a', 0, 100), child('gone', 0, 300, 'other#r'))).toEqual({
      basis: 'total',
      children: [{entity: 'a', share: 0.1, ratePerSecond: 0}],
      others: 0.9,
    })
  })
})
