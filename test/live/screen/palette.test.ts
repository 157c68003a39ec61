import {expect, it} from 'vitest'
import {paletteFor} from '../../../src/lib/live/screen/line.js'

/** Colours that are distinguishable with every kind of colour blindness; the second number is the nearest of 256. */
const OKABE_ITO = {
  '0;114;178': 25,
  '86;180;233': 74,
  '230;159;0': 178,
  '213;94;0': 166,
  '204;121;167': 175,
}

const coloursOf = (bits: number) =>
  Object.values(paletteFor(bits)).flatMap(({open}) => /\[([34]\d[\d;]*)m/.exec(open)?.[1] ?? [])

it('uses the Okabe-Ito palette where the terminal has enough colours', () => {
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

it('never contrasts red with green where there are sixteen colours', () => {
  const [red, yellow, blue, magenta, cyan] = ['31', '33', '34', '35', '36']
  expect(coloursOf(4).toSorted()).toEqual([red, yellow, blue, magenta, cyan])
})

it('also makes `over` bold', () => {
  for (const bits of [4, 8, 24]) expect(paletteFor(bits).over.open).toContain('[1m')
})

it('adds no styles where there are no colours', () => {
  for (const {open, close} of Object.values(paletteFor(1))) expect(open + close).toBe('')
})
