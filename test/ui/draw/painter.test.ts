import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {ASCII_GLYPHS, BLOCK_GLYPHS, type GlyphSet} from '../../../src/lib/ui/draw/glyphs.js'
import {clip, type Line, merged, printable, seg, type Tone} from '../../../src/lib/ui/draw/line.js'
import {Painter} from '../../../src/lib/ui/draw/painter.js'
import {paletteFor} from '../../../src/lib/ui/draw/palette.js'
import {FakeTerminal} from '../terminal.js'

const COLUMNS = 24
const ROWS = 4

/** Paints on a terminal, and keeps what was written last. */
function painting(colourBits = 1) {
  const terminal = new FakeTerminal(COLUMNS, ROWS)
  const writes: string[] = []
  const painter = new Painter(text => {
    writes.push(text)
    terminal.write(text)
  }, paletteFor(colourBits))
  const paint = (...lines: Line[]): string => {
    writes.length = 0
    painter.paint(lines)
    expect(writes.length).toBeLessThanOrEqual(1)
    return (writes[0] ?? '').replaceAll('\u001b', '^')
  }
  return {terminal, painter, paint}
}

/** The change of a frame as it is written. */
const frame = (change: string) => `^[?2026h^[?7l${change}^[H^[?7h^[?2026l`

describe('a frame', () => {
  it('is written as a whole at first, and after all was forgotten', () => {
    const {terminal, painter, paint} = painting()
    const lines = [[seg('one')], [seg('two')]]
    const whole = frame('^[1;1H^[Kone^[2;1H^[Ktwo')
    expect(paint(...lines)).toBe(whole)
    terminal.write('junk')
    painter.forget()
    expect(paint(...lines)).toBe(whole)
    expect(terminal.screen).toBe('one\ntwo\n\n')
  })

  it('is nothing where nothing has changed', () => {
    const {paint} = painting()
    const lines = () => [[seg('one'), seg('漢字', 'ok')], []]
    paint(...lines())
    expect(paint(...lines())).toBe('')
  })

  it('is the segments that have changed, with one movement to those that follow each other', () => {
    const {paint} = painting()
    paint([seg('same')], [seg('user-1 '), seg('███'), seg(' 17/20'), seg(' ok '), seg('1m')])
    const change = paint([seg('same')], [seg('user-1 '), seg('██░'), seg(' 16/20'), seg(' ok '), seg('2m')])
    expect(change).toBe(frame('^[2;8H██░ 16/20^[2;21H2m'))
  })

  it('is a segment of which only the tone has changed', () => {
    const {paint} = painting(4)
    paint([seg('a'), seg('b', 'ok')])
    expect(paint([seg('a'), seg('b', 'over')])).toBe(frame('^[1;2H^[1;31mb^[m'))
  })

  it('is the rest of a line from where its lengths differ', () => {
    const {terminal, paint} = painting()
    paint([seg('a'), seg('bcd'), seg('e')])
    expect(paint([seg('a'), seg('b'), seg('e')])).toBe(frame('^[1;2H^[Kbe'))
    expect(paint([seg('a')])).toBe(frame('^[1;2H^[K'))
    expect(terminal.lines[0]).toBe('a')
  })

  it.each<[string, GlyphSet]>([
    ['blocks', BLOCK_GLYPHS],
    ['ASCII', ASCII_GLYPHS],
  ])('leaves in place what stands behind the symbols of the view: %s', (_, glyphs) => {
    const {paint} = painting()
    const symbols = Object.values(glyphs).flatMap(each =>
      typeof each === 'string' ? each : Object.values(each).join(''),
    )
    for (const text of symbols) {
      paint([seg(text), seg('1'), seg('kept')])
      expect(paint([seg(text), seg('2'), seg('kept')])).toBe(frame(`^[1;${text.length + 1}H2`))
    }
  })

  it('repeats a line from the first character of which nobody knows the width', () => {
    const {paint} = painting()
    paint([seg('ab'), seg('cd', 'ok')])
    expect(paint([seg('漢字'), seg('cd', 'ok')])).toBe(frame('^[1;1H^[K漢字cd'))
    expect(paint([seg('ab'), seg('cd', 'ok')])).toBe(frame('^[1;1H^[Kabcd'))
    paint([seg('a'), seg('漢'), seg('b'), seg('1')])
    expect(paint([seg('a'), seg('漢'), seg('b'), seg('2')])).toBe(frame('^[1;2H^[K漢b2'))
  })
})

describe('whatever was painted before', () => {
  // Often as long as what they replace, so that it is tempting to write them alone.
  const anyText = fc.constantFrom('ab', 'é█', '漢字', ' \u0007', 'c', '字', '', 'abcdefghij')
  const anyTone = fc.constantFrom<Tone[]>('plain', 'over')
  const anyLine = fc.array(fc.tuple(anyText, anyTone), {maxLength: 6}).map(pieces =>
    printable(
      merged(
        clip(
          pieces.map(([text, tone]) => seg(text, tone)),
          COLUMNS,
          '…',
        ),
      ),
    ),
  )
  const anyFrame = fc.array(anyLine, {minLength: ROWS, maxLength: ROWS})

  it('the screen is that of the last frame, and nothing has scrolled', () => {
    fc.assert(
      fc.property(fc.array(anyFrame, {minLength: 1, maxLength: 6}), frames => {
        const {terminal, paint} = painting(8)
        for (const lines of frames) paint(...lines)
        const fresh = painting(8)
        fresh.paint(...(frames.at(-1) ?? []))
        expect(terminal.screen).toBe(fresh.terminal.screen)
        expect(terminal.scrolled).toBe(0)
      }),
    )
  })

  it('the screen has the text of the lines where every character takes one column', () => {
    fc.assert(
      fc.property(fc.array(anyFrame, {minLength: 1, maxLength: 6}), frames => {
        const narrow = frames.map(lines =>
          lines.map(line => line.map(({text, tone}) => seg(text.replace(/[漢字]/g, 'x'), tone))),
        )
        const {terminal, paint} = painting(24)
        for (const lines of narrow) paint(...lines)
        const texts = narrow.at(-1)?.map(line =>
          line
            .map(({text}) => text)
            .join('')
            .trimEnd(),
        )
        expect(terminal.lines).toEqual(texts)
      }),
    )
  })

  it('the terminal wraps again when a frame is done', () => {
    const {terminal, paint} = painting()
    paint([seg('字'.repeat(COLUMNS))], [seg('second')])
    expect(terminal.lines[1]).toBe('second')
    terminal.write('x'.repeat(COLUMNS + 1))
    expect(terminal.lines[1]).toBe('xecond')
  })
})
