import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {AmountTable} from '../../../src/lib/insight/usage/usage-asked.js'

const names = ['rpm', 'tpm', 'tpd', '__proto__', '']
const amounts = fc.uniqueArray(fc.tuple(fc.constantFrom(...names), fc.integer({min: -5, max: 2 ** 40})), {
  selector: ([name]) => name,
})
const additions = fc.array(fc.record({row: fc.nat({max: 6}), amounts: amounts.map(entries => new Map(entries))}))

describe('amounts of many rows', () => {
  it('equal those of one map per row', () => {
    fc.assert(
      fc.property(additions, added => {
        const table = new AmountTable()
        const rows = new Map<number, Map<string, number>>()
        for (const {row, amounts} of added) {
          table.add(row, amounts)
          const known = rows.get(row) ?? new Map<string, number>()
          for (const [name, amount] of amounts) known.set(name, (known.get(name) ?? 0) + amount)
          rows.set(row, known)
        }
        for (let row = 0; row < 8; row++) {
          const known = rows.get(row) ?? new Map<string, number>()
          expect(table.of(row)).toEqual(known)
          for (const name of [...names, 'unknown']) expect(table.amountOf(row, name)).toBe(known.get(name) ?? 0)
        }
        const used = new Set([...rows.values()].flatMap(known => [...known.keys()]))
        expect(new Set(table.names)).toEqual(used)
      }),
    )
  })
})
