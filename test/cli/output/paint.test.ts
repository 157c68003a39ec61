import {afterAll, beforeAll, expect, it, vi} from 'vitest'

const COLOURS: Readonly<Record<string, number>> = {red: 31, dim: 2}
let paint: typeof import('../../../src/lib/cli/output/lines.js').paint
let safeLine: typeof import('../../../src/lib/cli/output/lines.js').safeLine
let plainLine: typeof import('../../../src/lib/cli/output/lines.js').plainLine

// A terminal with colours, whatever this test runs in.
beforeAll(async () => {
  vi.resetModules()
  vi.doMock('@oclif/core/ux', () => ({
    colorize: (colour: string, text: string) => `\u001b[${COLOURS[colour]}m${text}\u001b[0m`,
  }))
  const module = await import('../../../src/lib/cli/output/lines.js')
  paint = module.paint
  safeLine = module.safeLine
  plainLine = module.plainLine
})
afterAll(() => {
  vi.doUnmock('@oclif/core/ux')
  vi.resetModules()
})

it("prints zael's colours, and escapes those of stored text", () => {
  const line = `${paint('dim', '\u001b[31mname')} \u001b[31mname${paint('red', '!')}`
  expect(safeLine(line)).toBe('\u001b[2m\\x1b[31mname\u001b[0m \\x1b[31mname\u001b[31m!\u001b[0m')
})

it('marks colours differently in every process, so that text cannot imitate them', () => {
  const [standsForEscape = ''] = paint('red', '').split('[31m')
  expect(standsForEscape.length).toBeGreaterThan(8)
  const guess = standsForEscape.replace(/[a-z0-9]+/, 'x')
  expect(safeLine(`${guess}[31mred`)).toBe('\\x00x\\x00[31mred')
})

it('keeps a line on one line', () => {
  expect(safeLine(`a\nError: faked\r${paint('dim', 'b\nc')}`)).toBe('a\\nError: faked\\r\u001b[2mb\\nc\u001b[0m')
})

it("removes zael's colours from a line of the live view, and escapes those of stored text", () => {
  expect(plainLine(`  ${paint('dim', 'level')}  \u001b[31m60 of 60`)).toBe('  level  \\x1b[31m60 of 60')
})
