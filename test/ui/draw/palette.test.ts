import {expect, it} from 'vitest'
import {paletteFor} from '../../../src/lib/ui/draw/palette.js'

/** Colours that are told apart with every kind of colour blindness; the second number is the nearest of 256. */
const OKABE_ITO = {
  '0;114;178': 25,
  '86;180;233': 74,
  '230;159;0': 178,
  '213;94;0': 166,
}

const coloursOf = (bits: number) => Object.values(paletteFor(bits)).flatMap(style => /[34]\d.*/.exec(style)?.[0] ?? [])

it('uses the colours of Okabe and Ito where there are enough', () => {
  expect(coloursOf(24).toSorted()).toEqual(
    Object.keys(OKABE_ITO)
      .map(parts => `38;2;${parts}`)
      .toSorted(),
  )
  expect(coloursOf(8).toSorted()).toEqual(
    Object.values(OKABE_ITO)
      .map(number => `38;5;${number}`)
      .toSorted(),
  )
})

it('never sets red against green where there are sixteen', () => {
  const [red, yellow, blue, cyan] = ['31', '33', '34', '36']
  expect(coloursOf(4).toSorted()).toEqual([red, yellow, blue, cyan])
})

it('makes what refuses bold besides', () => {
  for (const bits of [4, 8, 24]) expect(paletteFor(bits).over).toMatch(/^1;/)
})

it('changes nothing of the text where there are no colours', () => {
  expect(new Set(Object.values(paletteFor(1)))).toEqual(new Set(['']))
})
