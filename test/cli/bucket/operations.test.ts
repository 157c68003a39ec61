import {expect, it} from 'vitest'
import {resetLines, topUpLines} from '../../../src/lib/cli/bucket/operations.js'

const changed = (change: Partial<Parameters<typeof resetLines>[0]['result']> = {}) => ({
  entity: 'e',
  resource: 'r',
  units: new Map([['usd', 'USD']]),
  result: {
    idempotencyKey: 'k',
    isRepeated: false,
    shards: 1,
    ghosts: 0,
    amounts: {tpm: 5000, usd: 5_000_000},
    ...change,
  },
})

it('shows the restored balances of a reset, or that it was applied before', () => {
  expect(resetLines(changed(), true)).toEqual(['The bucket of e for r is full: tpm +5,000, usd +$5'])
  expect(resetLines(changed({shards: 4, amounts: {usd: -500_000}}), true)).toEqual([
    'The bucket of e for r is full (4 shards): usd -$0.50',
  ])
  expect(resetLines(changed({amounts: {tpm: 5}}), false)).toEqual(['Reset for e and r: tpm +5'])
  expect(resetLines(changed({isRepeated: true}), true)).toEqual([
    'Nothing was changed: the key k was already used to reset e for r (tpm +5,000, usd +$5)',
  ])
})

it('shows the amount added by a top-up, and where it is less than requested', () => {
  const asked = {tpm: 5000, usd: 5_000_000}
  expect(topUpLines(changed({shards: 2}), asked)).toEqual(['Topped up e for r (2 shards): tpm +5,000, usd +$5'])
  expect(topUpLines(changed({shards: 0, amounts: {tpm: 0, usd: 5_000_000}}), asked)).toEqual([
    'Topped up e for r: tpm +0, usd +$5',
    'tpm: less than requested, because a rate cannot exceed its capacity',
  ])
  expect(topUpLines(changed({isRepeated: true}), asked)).toEqual([
    'Nothing was changed: the key k was already used to top up e for r (tpm +5,000, usd +$5)',
  ])
})
