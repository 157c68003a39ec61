import {assert, property, string} from 'fast-check'
import {describe, expect, it} from 'vitest'
import {printableLines, printableText} from '../../../src/lib/core/text/printable.js'

describe('printableText', () => {
  it.each([
    ['an ordinary name', 'user-1 (Zoë, 日本語, 😀)', 'user-1 (Zoë, 日本語, 😀)'],
    ['a line break', 'a\nb\r\nc\td', 'a\\nb\\r\\nc\\td'],
    ['a colour', '\u001b[31mred\u001b[0m', '\\x1b[31mred\\x1b[0m'],
    ['a write to the clipboard', '\u001b]52;c;cm0gLXJm\u0007', '\\x1b]52;c;cm0gLXJm\\x07'],
    ['a link', '\u001b]8;;http://evil\u001b\\x', '\\x1b]8;;http://evil\\x1b\\x'],
    ['C1 controls and DEL', 'a\u009b2Jb\u007fc\u0085', 'a\\x9b2Jb\\x7fc\\x85'],
    ['direction controls', 'a\u202eb\u2066c\u200ed\u200fe\u061cf', 'a\\u202eb\\u2066c\\u200ed\\u200fe\\u061cf'],
    ['zero-width characters', 'a\u200bb\u200cc\u200dd\u2060e\ufefff', 'a\\u200bb\\u200cc\\u200dd\\u2060e\\ufefff'],
    ['soft hyphen and fillers', 'a\u00adb\u034fc\u3164d', 'a\\xadb\\u034fc\\u3164d'],
    ['tag characters', 'a\u{e0041}\u{e007f}', 'a\\u{e0041}\\u{e007f}'],
    ['line and paragraph separators', 'a\u2028b\u2029', 'a\\u2028b\\u2029'],
    ['a lone surrogate', 'a\ud83db', 'a\\ud83db'],
    ['a variation selector after a letter', 'a\ufe0f', 'a\\ufe0f'],
    ['a combining mark at the start', '\u0301a\u0301', '\\u0301a\u0301'],
    ['a flag made of tag characters', '🏴\u{e0067}\u{e007f}', '🏴\\u{e0067}\\u{e007f}'],
  ])('shows %s', (_, text, shown) => {
    expect(printableText(text)).toBe(shown)
  })

  it.each(['❤️', '👩🏽‍🚀', '👨‍👩‍👧‍👦', '❤️‍🔥', '1️⃣', '🇩🇪', '👍🏽'])('keeps the emoji %s whole', emoji => {
    expect(printableText(`a${emoji}b`)).toBe(`a${emoji}b`)
  })

  it('escapes a joiner that does not join two pictures', () => {
    expect(printableText('👩\u200d')).toBe('👩\\u200d')
    expect(printableText('\u200d👩')).toBe('\\u200d👩')
  })

  it('is idempotent, and hides nothing', () => {
    void assert(
      property(string({unit: 'binary'}), text => {
        const once = printableText(text)
        expect(printableText(once)).toBe(once)
        expect(once).not.toMatch(/[\p{Cc}\p{Cs}\p{Bidi_Control}\p{Zl}\p{Zp}]/u)
      }),
    )
  })
})

it('keeps line breaks, and only those, in printableLines', () => {
  expect(printableLines('a\nb\u001b[2J\r\n')).toBe('a\nb\\x1b[2J\\r\n')
})
