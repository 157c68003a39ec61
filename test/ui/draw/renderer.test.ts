import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {ASCII_GLYPHS, BLOCK_GLYPHS, type GlyphSet} from '../../../src/lib/ui/draw/glyphs.js'
import {clip, type Line, mergeSegments, printableLine, seg, type Tone} from '../../../src/lib/ui/draw/line.js'
import {paletteFor} from '../../../src/lib/ui/draw/palette.js'
import {TerminalRenderer} from '../../../src/lib/ui/draw/renderer.js'
import {FakeTerminal} from '../terminal.js'

const COLUMNS = 24
const ROWS = 4

/** Renders on a terminal, and keeps the last write. */
function onTerminal(colourBits = 1) {
  const terminal = new FakeTerminal(COLUMNS, ROWS)
  const writes: string[] = []
  const renderer = new TerminalRenderer(text => {
    writes.push(text)
    terminal.write(text)
  }, paletteFor(colourBits))
  const render = (...lines: Line[]): string => {
    writes.length = 0
    renderer.render(lines)
    expect(writes.length).toBeLessThanOrEqual(1)
    return (writes[0] ?? '').replaceAll('\u001b', '^')
  }
  return {terminal, renderer, render}
}

/** A change as it is written. */
const frame = (change: string) => `^[?2026h^[?7l${change}^[H^[?7h^[?2026l`

describe('a frame', () => {
  it('is written as a whole at first, and after an invalidation', () => {
    const {terminal, renderer, render} = onTerminal()
    const lines = [[seg('one')], [seg('two')]]
    const whole = frame('^[1;1H^[Kone^[2;1H^[Ktwo')
    expect(render(...lines)).toBe(whole)
    terminal.write('junk')
    renderer.invalidate()
    expect(render(...lines)).toBe(whole)
    expect(terminal.screen).toBe('one\ntwo\n\n')
  })

  it('writes nothing where nothing has changed', () => {
    const {render} = onTerminal()
    const lines = () => [[seg('one'), seg('漢字', 'ok')], []]
    render(...lines())
    expect(render(...lines())).toBe('')
  })

  it('writes the changed segments, with one cursor movement for adjacent ones', () => {
    const {render} = onTerminal()
    render([seg('same')], [seg('user-1 '), seg('███'), seg(' 17/20'), seg(' ok '), seg('1m')])
    const change = render([seg('same')], [seg('user-1 '), seg('██░'), seg(' 16/20'), seg(' ok '), seg('2m')])
    expect(change).toBe(frame('^[2;8H██░ 16/20^[2;21H2m'))
  })

  it('writes a segment of which only the tone has changed', () => {
    const {render} = onTerminal(4)
    render([seg('a'), seg('b', 'ok')])
    expect(render([seg('a'), seg('b', 'over')])).toBe(frame('^[1;2H^[1;31mb^[m'))
  })

  it('writes the rest of a line from the first segment of another length', () => {
    const {terminal, render} = onTerminal()
    render([seg('a'), seg('bcd'), seg('e')])
    expect(render([seg('a'), seg('b'), seg('e')])).toBe(frame('^[1;2H^[Kbe'))
    expect(render([seg('a')])).toBe(frame('^[1;2H^[K'))
    expect(terminal.lines[0]).toBe('a')
  })

  it.each<[string, GlyphSet]>([
    ['blocks', BLOCK_GLYPHS],
    ['ASCII', ASCII_GLYPHS],
  ])('does not rewrite what follows a symbol of the view: %s', (_, glyphs) => {
    const {render} = onTerminal()
    const symbols = Object.values(glyphs).flatMap(each =>
      typeof each === 'string' ? each : Object.values(each).join(''),
    )
    for (const text of symbols) {
      render([seg(text), seg('1'), seg('kept')])
      expect(render([seg(text), seg('2'), seg('kept')])).toBe(frame(`^[1;${text.length + 1}H2`))
    }
  })

  it('rewrites a line from the first character of unknown width', () => {
    const {render} = onTerminal()
    render([seg('ab'), seg('cd', 'ok')])
    expect(render([seg('漢字'), seg('cd', 'ok')])).toBe(frame('^[1;1H^[K漢字cd'))
    expect(render([seg('ab'), seg('cd', 'ok')])).toBe(frame('^[1;1H^[Kabcd'))
    render([seg('a'), seg('漢'), seg('b'), seg('1')])
    expect(render([seg('a'), seg('漢'), seg('b'), seg('2')])).toBe(frame('^[1;2H^[K漢b2'))
  })
})

describe('after any frames', () => {
  // Often as long as the text they replace, so that segments can be written on their own.
  const anyText = fc.constantFrom('ab', 'é█', '漢字', ' \u0007', 'c', '字', '', 'abcdefghij')
  const anyTone = fc.constantFrom<Tone[]>('plain', 'over')
  const anyLine = fc.array(fc.tuple(anyText, anyTone), {maxLength: 6}).map(pieces =>
    printableLine(
      mergeSegments(
        clip(
          pieces.map(([text, tone]) => seg(text, tone)),
          COLUMNS,
          '…',
        ),
      ),
    ),
  )
  const anyFrame = fc.array(anyLine, {minLength: ROWS, maxLength: ROWS})

  it('the screen shows the last frame, and nothing has scrolled', () => {
    fc.assert(
      fc.property(fc.array(anyFrame, {minLength: 1, maxLength: 6}), frames => {
        const {terminal, render} = onTerminal(8)
        for (const lines of frames) render(...lines)
        const fresh = onTerminal(8)
        fresh.render(...(frames.at(-1) ?? []))
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
        const {terminal, render} = onTerminal(24)
        for (const lines of narrow) render(...lines)
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
    const {terminal, render} = onTerminal()
    render([seg('字'.repeat(COLUMNS))], [seg('second')])
    expect(terminal.lines[1]).toBe('second')
    terminal.write('x'.repeat(COLUMNS + 1))
    expect(terminal.lines[1]).toBe('xecond')
  })
})
