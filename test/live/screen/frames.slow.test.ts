import {afterEach, describe, expect, it, vi} from 'vitest'
import type {Reading} from '../../../src/lib/live/model/model.js'
import * as ranking from '../../../src/lib/live/model/rank.js'
import {bucketOf, readingOf} from '../support.js'
import {DETAIL, SAMPLE} from './fixtures.js'
import {KEY, OpenView} from './view.js'

let view: OpenView

afterEach(async () => {
  await view.press(KEY.ctrlC)
  await view.result
  vi.useRealTimers()
  vi.restoreAllMocks()
})

function moving(count: number): Reading[] {
  return Array.from({length: count}, (_, index) => {
    const limits = {tpm: {capacity: 100_000, left: index, refillPerSecond: 100 + index}}
    return readingOf(bucketOf(`user-${index}#gpt-4`, {limits}), {used: [0.2, 0.4]})
  })
}

describe('ten thousand buckets', () => {
  it('show the effect of a key at once', async () => {
    view = await OpenView.open(moving(10_000), {rows: 24})
    const steps = [
      ['j', '▸▲ user-1 '],
      [KEY.pageDown, '▸▲ user-20 '],
      ['G', '▸● user-9999 '],
      [KEY.enter, '● user-9999 · gpt-4'],
      [KEY.escape, '▸● user-9999 '],
      ['S', 'ENTITY        RESOURCE LEVEL    LEFT/CAP↓'],
      ['/', '/_'],
      ['9', '/9_'],
      [KEY.enter, '/9  3,439 buckets · esc clears it'],
      ['?', 'Keys'],
    ] as const
    for (const [key, text] of steps) {
      view.keyboard.press(key)
      // Only escape has to wait, because it may start a sequence; Ink draws at most 60 frames a second.
      await view.pass(key === KEY.escape ? 40 : 20)
      expect(view.terminal.screen).toContain(text)
    }
  })

  it('are ranked with a poll, a second or another selection, not with every frame', async () => {
    const rank = vi.spyOn(ranking, 'ranking')
    view = await OpenView.open(moving(10_000), {rows: 24})
    const times = async (work: () => Promise<void>) => {
      const before = rank.mock.calls.length
      await work()
      return rank.mock.calls.length - before
    }
    expect(await times(() => view.press('j', 'j', 'k', 'w'))).toBe(0)
    expect(await times(() => view.press('s'))).toBe(1)
    expect(await times(() => view.press('/', '9', '9', KEY.escape))).toBe(3)
    expect(await times(() => view.pass(3000))).toBe(3)
    view.watch.poll(moving(10_000))
    await view.pass(20)
    expect(await times(() => view.press('j'))).toBe(0)
  })
})

describe('frames', () => {
  it('are small while only levels move', async () => {
    view = await OpenView.open(moving(40), {columns: 100, rows: 30})
    const {terminal} = view
    const [frames, written] = [terminal.frames, terminal.written]
    await view.pass(5300)
    const shown = terminal.frames - frames
    const bytes = Math.round((terminal.written - written) / shown)
    console.log(`live view, 100×30, 25 rows moving, 5 seconds: ${shown} frames, ${bytes} bytes per frame`)
    expect(shown).toBe(5)
    // The screen has 3,000 characters; a row is written from its first change on.
    expect(bytes).toBeLessThan(25 * 100)
  })

  it('come once a second when only the clock moves', async () => {
    view = await OpenView.open([readingOf(bucketOf('user-1#gpt-4', {limits: {tpm: {capacity: 100}}}))])
    const {frames} = view.terminal
    // The first waits for a poll that is due.
    await view.pass(10_300)
    expect(view.terminal.frames - frames).toBe(10)
  })

  it('fill the terminal, however it is resized', async () => {
    view = await OpenView.open(SAMPLE, {columns: 120, rows: 30})
    view.watch.update({detail: DETAIL})
    for (const key of ['', KEY.enter, KEY.escape, '?', KEY.escape, KEY.tab, KEY.tab, KEY.tab]) {
      if (key !== '') await view.press(key)
      for (const [columns, rows] of [
        [60, 10],
        [200, 50],
        [80, 1],
        [40, 8],
        [39, 30],
        [120, 3],
        [120, 30],
      ] as const) {
        view.terminal.resize(columns, rows)
        await view.pass(60)
        expect(view.terminal.lines).toHaveLength(rows)
        const isSmall = columns < 40 || rows < 8
        expect(view.terminal.lines[0], `${columns}×${rows}`).toMatch(isSmall ? /^needs at least/ : /^zael watch/)
        if (!isSmall) expect(view.terminal.lines.at(-1)).toMatch(/q quit/)
      }
    }
  })
})
