import {PassThrough} from 'node:stream'
import {describe, expect, it} from 'vitest'
import {barLine, progressBar} from '../../../src/lib/cli/output/progress.js'

const ERASE = '\r\u001b[2K'

function stream(isTTY: boolean, columns = 80) {
  const to = Object.assign(new PassThrough(), {isTTY, columns})
  return {to, shown: () => String(to.read() ?? '')}
}

describe('a progress bar', () => {
  it('is drawn over and over in one line of a terminal, and leaves nothing behind', () => {
    const {to, shown} = stream(true)
    const bar = progressBar('Purging "x"', 2000, to)
    expect(shown()).toBe('')
    bar.update(500)
    expect(shown()).toBe(`${ERASE}Purging "x"  [#######-----------------------]  25%  500 of 2,000`)
    bar.update(2000)
    expect(shown()).toBe(`${ERASE}Purging "x"  [##############################]  100%  2,000 of 2,000`)
    bar.end()
    expect(shown()).toBe(ERASE)
  })

  it('is not drawn without a terminal', () => {
    const {to, shown} = stream(false)
    const bar = progressBar('Purging "x"', 2000, to)
    bar.update(500)
    bar.end()
    expect(shown()).toBe('')
  })

  it('never wraps, and gives way to its figures where it is narrow', () => {
    for (const columns of [200, 80, 50, 45, 40, 30, 10, 1]) {
      expect(barLine('Purging "x"', 1999, 2000, columns).length).toBeLessThan(columns)
    }
    expect(barLine('Purging "x"', 1999, 2000, 40)).toBe('Purging "x"  99%  1,999 of 2,000')
  })

  it('may pass an estimate, and takes nothing for done only when nothing was to do', () => {
    expect(barLine('x', 12, 10, 80)).toBe(`x  [${'#'.repeat(30)}]  100%  12 of 12`)
    expect(barLine('x', 0, 10, 80)).toBe(`x  [${'-'.repeat(30)}]  0%  0 of 10`)
    expect(barLine('x', 0, 0, 80)).toContain('100%  0 of 0')
  })
})
