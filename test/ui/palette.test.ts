import {expect, it} from 'vitest'
import {paletteFor} from '../../src/lib/ui/palette.js'

/** Colours that are told apart with every kind of colour blindness. */
const OKABE_ITO = ['#0072B2', '#56B4E9', '#E69F00', '#D55E00', '#CC79A7', '#009E73', '#F0E442']

const coloursOf = (bits: number) => Object.values(paletteFor(bits)).flatMap(({color}) => color ?? [])

it('uses the colours of Okabe and Ito where there are enough', () => {
  for (const bits of [8, 24]) {
    expect(new Set(coloursOf(bits)).size).toBe(4)
    for (const colour of coloursOf(bits)) expect(OKABE_ITO).toContain(colour)
  }
})

it('never sets red against green where there are sixteen', () => {
  expect(new Set(coloursOf(4))).toEqual(new Set(['cyan', 'yellow', 'red', 'blue']))
})

it('makes what refuses bold besides', () => {
  expect([paletteFor(1), paletteFor(4), paletteFor(24)].map(({over}) => over.bold)).toEqual([true, true, true])
})
