import fc from 'fast-check'
import {expect, it} from 'vitest'
import {divideByRoom, divideByWeight} from '../../../src/lib/core/buckets/shards.js'

const sum = (parts: readonly bigint[]) => parts.reduce((a, b) => a + b, 0n)
const amounts = (min: bigint) => fc.array(fc.bigInt({min, max: 10n ** 16n}), {minLength: 1, maxLength: 32})

it('divides tokens by weights as other clients do, the rest to the first', () => {
  expect(divideByWeight(7n, [2n, 1n, 1n])).toEqual([5n, 1n, 1n])
  expect(divideByWeight(2n, [1n, 1n, 1n, 1n])).toEqual([2n, 0n, 0n, 0n])
  expect(divideByWeight(5n, [])).toEqual([])
})

it('divides tokens by room, and never exceeds it', () => {
  expect(divideByRoom(10n, [0n, 5n, 15n])).toEqual([0n, 3n, 7n])
  expect(divideByRoom(100n, [4n, 0n, 2n])).toEqual([4n, 0n, 2n])
  expect(divideByRoom(3n, [0n, 0n])).toEqual([0n, 0n])
})

it('gives every token once', () => {
  fc.assert(
    fc.property(fc.bigInt({min: 1n, max: 10n ** 16n}), amounts(1n), (total, weights) => {
      const parts = divideByWeight(total, weights)
      return sum(parts) === total && parts.every(part => part >= 0n)
    }),
  )
  fc.assert(
    fc.property(fc.bigInt({min: 1n, max: 10n ** 16n}), amounts(0n), (total, rooms) => {
      const parts = divideByRoom(total, rooms)
      const most = sum(rooms) < total ? sum(rooms) : total
      return sum(parts) === most && parts.every((part, at) => part >= 0n && part <= (rooms[at] ?? 0n))
    }),
  )
})
