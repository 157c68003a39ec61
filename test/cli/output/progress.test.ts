import {PassThrough} from 'node:stream'
import {describe, expect, it} from 'vitest'
import {barText, ProgressLine, withProgress} from '../../../src/lib/cli/output/progress.js'
import {ZaelError} from '../../../src/lib/core/errors.js'

const ERASE = '\r\u001b[2K'

function stream(isTTY: boolean, columns = 80) {
  const to = Object.assign(new PassThrough(), {isTTY, columns})
  return {to, shown: () => String(to.read() ?? '')}
}

const unexpected = () => new ZaelError('interrupted', 'x', 'not expected')

describe('a progress line', () => {
  it('is redrawn in one line of a terminal, and cleared at the end', async () => {
    const {to, shown} = stream(true)
    const line = new ProgressLine(to)
    expect(shown()).toBe('')
    line.bar('Purging "x"', 500, 2000)
    expect(shown()).toBe(`${ERASE}Purging "x"  [#######-----------------------]  25%  500 of 2,000`)
    line.bar('Purging "x"', 2000, 2000)
    expect(shown()).toBe(`${ERASE}Purging "x"  [##############################]  100%  2,000 of 2,000`)
    line.count('Items compared', 12_000)
    expect(shown()).toBe(`${ERASE}Items compared  12,000`)
    line.clear()
    expect(shown()).toBe(ERASE)
    expect(await withProgress(async () => 7, unexpected, to)).toBe(7)
    expect(shown()).toBe(ERASE)
    await expect(withProgress(() => Promise.reject(new Error('no luck')), unexpected, to)).rejects.toThrow('no luck')
    expect(shown()).toBe(ERASE)
  })

  it('is not drawn without a terminal', () => {
    const {to, shown} = stream(false)
    const line = new ProgressLine(to)
    line.bar('Purging "x"', 500, 2000)
    line.count('Items compared', 12_000)
    line.clear()
    expect(shown()).toBe('')
  })

  it('never wraps, and omits the bar on a narrow terminal', () => {
    const {to, shown} = stream(true, 10)
    new ProgressLine(to).count('Items compared', 12_000)
    expect(shown()).toBe(`${ERASE}Items co…`)
    for (const columns of [200, 80, 50, 45, 40, 30, 10, 1]) {
      expect(barText('Purging "x"', 1999, 2000, columns).length).toBeLessThan(columns)
    }
    expect(barText('Purging "x"', 1999, 2000, 40)).toBe('Purging "x"  99%  1,999 of 2,000')
  })

  it('escapes hidden characters of its title, and counts wide ones', () => {
    const {to, shown} = stream(true, 30)
    new ProgressLine(to).bar('Purging "日本\u001b[2J"', 1, 2)
    expect(shown()).toBe(`${ERASE}Purging "日本\\x1b[2J"  50%  …`)
  })

  it('stays full above an estimated total, and is complete at 0 of 0', () => {
    expect(barText('x', 12, 10, 80)).toBe(`x  [${'#'.repeat(30)}]  100%  12 of 12`)
    expect(barText('x', 0, 10, 80)).toBe(`x  [${'-'.repeat(30)}]  0%  0 of 10`)
    expect(barText('x', 0, 0, 80)).toContain('100%  0 of 0')
  })
})
