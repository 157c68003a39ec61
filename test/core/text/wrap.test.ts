import fc from 'fast-check'
import {expect, it} from 'vitest'
import {shellWord} from '../../../src/lib/core/text/text.js'
import {textWidth} from '../../../src/lib/core/text/text-width.js'
import {wrapped, wrappedCommand} from '../../../src/lib/core/text/wrap.js'

const WORDS = 'zael limits set --entity cust-08 --resource gpt-4 tpm=200k/min --for 1h --stack prod'.split(' ')

it('keeps a flag beside its value', () => {
  expect(wrappedCommand(WORDS, 80)).toEqual([
    'zael limits set --entity cust-08 --resource gpt-4 tpm=200k/min --for 1h \\',
    '--stack prod',
  ])
  expect(wrappedCommand(WORDS, 200)).toEqual([WORDS.join(' ')])
})

it('breaks a word that is longer than a line where a shell joins it again', () => {
  const id = 'e'.repeat(50)
  const lines = wrappedCommand(['zael', 'entity', 'disable', id], 30)
  expect(lines.every(line => line.length <= 30)).toBe(true)
  expect(lines.join('\n').replaceAll('\\\n', '')).toBe(`zael entity disable ${id}`)
})

it.each([17, 18, 19, 20])('does not join a word of %i characters that nearly fills a line with the next one', size => {
  const words = ['x'.repeat(size), 'y']
  const lines = wrappedCommand(words, 20)
  expect(lines.join('\n').replaceAll('\\\n', '')).toBe(words.join(' '))
  expect(wrappedCommand(words.slice(0, 1), 20).at(-1)).not.toMatch(/\\$/)
})

it('puts no backslash into a quoted word: a shell would take it as text', () => {
  const word = shellWord(`$HOME ${'x'.repeat(40)}`)
  expect(wrappedCommand(['zael', word], 30).join('')).not.toContain('x\\')
})

it('prints a command that a shell reads back, in lines that fit', () => {
  const word = fc.stringMatching(/^[a-z0-9_.:@=/-]{1,60}$/)
  fc.assert(
    fc.property(fc.array(word, {minLength: 1, maxLength: 12}), fc.integer({min: 20, max: 120}), (words, width) => {
      const lines = wrappedCommand(words, width)
      expect(lines.every(line => textWidth(line) <= width)).toBe(true)
      expect(lines.join('\n').replaceAll('\\\n', '')).toBe(words.join(' '))
    }),
  )
})

it('breaks lines at spaces, and hangs the value of a short label beside it', () => {
  expect(wrapped('  level    9,880 of 10,000 left, 1 requested', 30)).toEqual([
    '  level    9,880 of 10,000',
    '           left, 1 requested',
  ])
  expect(wrapped('rpm of user-2 refuses, clears in 12 h', 30)).toEqual(['rpm of user-2 refuses, clears', '    in 12 h'])
})

it('breaks a command between words where a shell joins it again, and puts its purpose below', () => {
  const line = "  zael limits set --entity cust-08 'rpm=60/min tz' --stack prod  raise the limit"
  const lines = wrapped(line, 30)
  expect(lines.at(-1)).toBe('      raise the limit')
  const command = lines
    .slice(0, -1)
    .join('\n')
    .replaceAll(/\\\n\s*/g, '')
  expect(command).toBe("  zael limits set --entity cust-08 'rpm=60/min tz' --stack prod")
  expect(lines.every(each => textWidth(each) <= 30)).toBe(true)
})
