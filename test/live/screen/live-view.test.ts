import {afterEach, describe, expect, it, vi} from 'vitest'
import type {Reading} from '../../../src/lib/live/model/model.js'
import {bucketOf, READ_AT_MS, readingOf} from '../support.js'
import {DETAIL, HEALTH, SAMPLE} from './fixtures.js'
import {KEY, OpenView} from './view.js'

let open: OpenView | undefined

async function show(...args: Parameters<typeof OpenView.open>): Promise<OpenView> {
  open = await OpenView.open(...args)
  return open
}

afterEach(async () => {
  if (open) {
    await open.press(KEY.ctrlC)
    await open.result.catch(() => {})
  }
  open = undefined
  vi.useRealTimers()
})

/** Buckets whose order by level is that of their numbers; they hardly refill. */
function many(count: number, left = (index: number) => index): Reading[] {
  return Array.from({length: count}, (_, index) => {
    const name = `user-${String(index).padStart(5, '0')}`
    const limits = {tpm: {capacity: 100_000, left: left(index), refillPerSecond: 0.001}}
    return readingOf(bucketOf(`${name}#gpt-4`, {limits}))
  })
}

describe('the view ends', () => {
  it.each([
    ['q', 'q', 0],
    ['Ctrl-C', KEY.ctrlC, 130],
  ])('on %s', async (_, key, exitCode) => {
    const view = await show(SAMPLE)
    expect([view.terminal.isAlternate, view.terminal.isCursorShown, view.keyboard.isRaw]).toEqual([true, false, true])
    await view.press(key)
    expect((await view.result).exitCode).toBe(exitCode)
    expect([view.terminal.isAlternate, view.terminal.isCursorShown, view.keyboard.isRaw]).toEqual([false, true, false])
    expect(view.watch.listeners).toBe(0)
    const {frames, written} = view.terminal
    view.watch.poll(SAMPLE)
    await view.pass(60_000)
    expect([view.terminal.frames, view.terminal.written]).toEqual([frames, written])
  })

  it.each([
    ['SIGTERM', 143],
    ['SIGINT', 130],
  ] as const)('on %s', async (signal, exitCode) => {
    const before = process.listenerCount(signal)
    const view = await show(SAMPLE)
    process.emit(signal)
    await view.pass(100)
    expect((await view.result).exitCode).toBe(exitCode)
    expect(view.terminal.isAlternate).toBe(false)
    expect(process.listenerCount(signal)).toBe(before)
  })

  it('after --for', async () => {
    const view = await show(SAMPLE, {forMs: 6000})
    await view.pass(5000)
    expect(view.terminal.isAlternate).toBe(true)
    await view.pass(1100)
    expect((await view.result).exitCode).toBe(0)
  })

  it('with an error, which it rethrows after restoring the terminal', async () => {
    const view = await show(SAMPLE)
    const broken = readingOf({entity: 'x', resource: 'y', shardCount: 1, shards: undefined as never})
    view.watch.poll([broken])
    await view.pass(100)
    await expect(view.result).rejects.toThrow(TypeError)
    expect([view.terminal.isAlternate, view.terminal.isCursorShown, view.keyboard.isRaw]).toEqual([false, true, false])
    open = undefined
  })

  it('and is not shifted by keys echoed before it opened, and echoes none', async () => {
    const view = await show(SAMPLE, {typedBefore: 'ppj'})
    expect(view.terminal.lines[0]).toMatch(/^zael watch/)
    expect(view.hasEchoed).toBe(false)
  })

  it('with a summary line for the scrollback', async () => {
    const view = await show(SAMPLE, {rows: 8})
    await view.press('p')
    await view.pass(64_000)
    view.watch.poll(SAMPLE, 300)
    await view.press('q')
    expect((await view.result).summary).toBe(
      'Watched 5 buckets for 1 min 4 s, 2 polls, 313 read units; 1 over, 2 near at the end.',
    )
  })
})

describe('a frame', () => {
  it('is drawn at once with its key, and only once', async () => {
    const view = await show(many(50))
    const {frames, written} = view.terminal
    view.keyboard.press('j')
    await view.pass(0)
    expect(view.selected).toBe('user-00001')
    expect(view.terminal.frames).toBe(frames + 1)
    // Two of sixteen lines: the newly selected one and the previous one.
    expect(view.terminal.written - written).toBeLessThan(300)
    await view.pass(200)
    expect(view.terminal.frames).toBe(frames + 1)
  })

  it('has colours where the terminal supports them', async () => {
    const [reading] = many(1)
    const view = await show(reading ? [reading] : [], {colourBits: 4})
    expect(view.terminal.output).toContain('\u001b[31m✖')
  })

  it('is drawn completely after a resize, whatever the terminal or Ink did to the old one', async () => {
    const view = await show(many(50))
    for (const columns of [70, 60, 50, 120]) {
      view.terminal.resize(columns, 12)
      await view.pass(60)
      expect(view.terminal.lines[0]).toMatch(/^zael watch/)
      expect(view.terminal.lines[1]).toMatch(/^data /)
      expect(view.entities).toHaveLength(7)
      expect(view.statusLine).toMatch(/^\? help/)
    }
  })

  it.each([80, 60, 200])('is the same after a resize to %i columns as if it was opened so', async columns => {
    const fresh = await show(many(50), {columns, rows: 24})
    await fresh.pass(3000)
    const {screen} = fresh.terminal
    await fresh.press('q')
    const view = await show(many(50), {columns: 130, rows: 24})
    view.terminal.resize(columns, 24)
    await view.pass(3000)
    expect(view.terminal.screen).toBe(screen)
  })

  it('escapes control characters of names and messages', async () => {
    const names = ['a\u001b[2Jb\nc\u202ed', 'e\u001b]52;c;aGk=\u0007f', 'g\u001b[31mh', 'i\u200bj']
    const readings = names.map(name => readingOf(bucketOf(`${name}#gpt-4`, {limits: {tpm: {capacity: 9}}})))
    const view = await show(readings, {columns: 120})
    await view.press('w')
    expect(view.entities).toEqual(['a\\x1b[2Jb\\nc\\u202ed', 'e\\x1b]52;c;aGk=\\x07f', 'g\\x1b[31mh', 'i\\u200bj'])
    for (const hidden of ['\u202e', '\u200b', '\u0007', '\u001b[31m']) {
      expect(view.terminal.output).not.toContain(hidden)
    }
    view.watch.update({
      problem: {message: 'no\r\u009b2Jthing', isThrottled: false, sinceMs: READ_AT_MS, nextTryAtMs: READ_AT_MS},
    })
    await view.pass(60)
    expect(view.statusLine).toMatch(/: no\\r\\x9b2Jthing$/)
  })
})

describe('Ctrl-Z', () => {
  it('restores the terminal before the process stops, and draws everything again when it continues', async () => {
    const view = await show(many(3))
    const restored: unknown[] = []
    const kill = vi.spyOn(process, 'kill').mockImplementation((pid, signal) => {
      restored.push([pid, signal, view.terminal.isAlternate, view.terminal.isCursorShown, view.keyboard.isRaw])
      return true
    })
    try {
      await view.press('\u001a')
    } finally {
      kill.mockRestore()
    }
    expect(restored[0]).toEqual([0, 'SIGTSTP', false, true, false])
    expect([view.terminal.isAlternate, view.terminal.isCursorShown, view.keyboard.isRaw]).toEqual([true, false, true])
    expect(view.terminal.lines[0]).toMatch(/^zael watch/)
    expect(view.entities).toHaveLength(3)
    await view.press('j')
    expect(view.selected).toBe('user-00001')
  })
})

describe('moving', () => {
  it('selects the next, the last, the first', async () => {
    const view = await show(many(50))
    expect(view.selected).toBe('user-00000')
    await view.press('j', KEY.down)
    expect(view.selected).toBe('user-00002')
    await view.press('G')
    expect([view.selected, view.entities.at(-1)]).toEqual(['user-00049', 'user-00049'])
    await view.press('g')
    expect([view.selected, view.entities[0]]).toEqual(['user-00000', 'user-00000'])
    await view.press(KEY.pageDown, KEY.ctrlD)
    expect(view.selected).toBe('user-00016')
    await view.press(KEY.pageUp, KEY.ctrlU, KEY.up)
    expect(view.selected).toBe('user-00000')
  })

  it('handles keys that arrive together one by one', async () => {
    const view = await show(many(50))
    await view.press('jjjj')
    expect(view.selected).toBe('user-00004')
    await view.press('/user-0001\rS')
    expect(view.entities).toEqual(Array.from({length: 10}, (_, index) => `user-0001${9 - index}`))
  })

  it('follows the selected bucket where sorting moves it', async () => {
    const view = await show(many(50))
    await view.press('j')
    view.watch.poll(many(50, index => 100 - index))
    await view.pass(100)
    expect(view.selected).toBe('user-00001')
    expect(view.entities.slice(-2)).toEqual(['user-00002', 'user-00001'])
  })

  it('stays at the top while nothing is selected', async () => {
    const view = await show(many(50))
    view.watch.poll(many(50, index => 100 - index))
    await view.pass(100)
    expect(view.selected).toBe('user-00049')
  })

  it('selects the neighbour when the selected bucket disappears', async () => {
    const view = await show(many(50))
    await view.press('jj')
    const [, , third, ...rest] = many(50, index => 100 - index)
    view.watch.poll(third ? [third, ...rest] : [])
    await view.pass(100)
    view.watch.poll(rest)
    await view.pass(100)
    expect(view.selected).toBe('user-00003')
  })

  it('has the visible buckets read', async () => {
    const view = await show(many(50))
    expect(view.watch.calls).toEqual(['focus 11'])
    await view.press('j')
    expect(view.watch.calls).toEqual(['focus 11'])
    await view.press('G')
    expect(view.watch.calls).toEqual(['focus 11', 'focus 11'])
  })
})

describe('filter', () => {
  it('treats letters as text while it is typed, and filters while typing', async () => {
    const view = await show(SAMPLE)
    await view.press('/', 'q', KEY.backspace, 's', 'p')
    expect(view.terminal.screen).toContain('/sp_')
    expect(view.terminal.screen).toContain('No buckets match "sp"')
    await view.press(KEY.backspace, 'earch')
    expect(view.entities).toEqual(['user-empty', 'team-research', 'hot-key'])
    await view.press(KEY.enter)
    expect(view.terminal.screen).toContain('/search  3 buckets · esc clears it')
    await view.press('S')
    expect(view.entities).toEqual(['hot-key', 'team-research', 'user-empty'])
    await view.press(KEY.escape)
    expect(view.entities).toHaveLength(6)
    expect(view.watch.calls).not.toContain('paused true')
  })

  it('supports status and negation', async () => {
    const view = await show(SAMPLE)
    await view.press('/status:over')
    expect(view.entities).toEqual(['user-debt', 'user-empty'])
    await view.press(KEY.ctrlU, '!user')
    expect(view.entities).toEqual(['team-research', 'hot-key'])
  })

  it('starts with the filter of the command line', async () => {
    const view = await show(SAMPLE, {selection: {sort: 'entity', reversed: false, filter: 'gpt'}})
    expect(view.entities).toEqual(['team-research', 'user-debt', 'user-gone'])
  })
})

describe('a long list', () => {
  it('shows which rows are visible', async () => {
    const view = await show(many(113), {columns: 100, rows: 41})
    const position = () => view.terminal.lines.at(-2)?.split('  ').at(-1)?.trim()
    expect(position()).toBe('1–36 of 113')
    await view.press(KEY.pageDown, KEY.pageDown)
    expect(position()).toBe('38–73 of 113')
    await view.press('G')
    expect(position()).toBe('78–113 of 113')
    await view.press('/user-0000', KEY.enter)
    expect(view.terminal.screen).not.toMatch(/\d–\d/)
  })

  it('starts at the top when its order changes', async () => {
    const view = await show(many(113))
    await view.press('G', 'S')
    expect([view.entities[0], view.selected]).toEqual(['user-00112', 'user-00112'])
    view.watch.poll(many(200))
    await view.pass(100)
    expect(view.selected).toBe('user-00199')
  })
})

describe('names of wide characters', () => {
  it('do not shift the columns behind them', async () => {
    const names = ['租户-研究-一个很长的名字-甲', 'テナント', '회사', '🚀-dev', 'plain']
    const limits = {tpm: {capacity: 100, left: 50}}
    const view = await show(names.map(name => readingOf(bucketOf(`${name}#gpt-4`, {limits}))))
    const rows = view.terminal.cells.slice(3, 8)
    // Column by column, also where a character takes two.
    expect(new Set(rows.map(cells => cells.slice(17, 23).join('')))).toEqual(new Set(['gpt-4 ']))
    expect(new Set(rows.map(cells => cells.slice(26, 34).join('')))).toEqual(new Set(['████▊░░░']))
  })
})

describe('sort', () => {
  it('cycles, reverses, and selects by column', async () => {
    const view = await show(SAMPLE, {columns: 120})
    expect(view.terminal.screen).toContain(' USED/S ')
    await view.press('s')
    expect(view.terminal.screen).toContain(' tpm/S↓ ')
    expect(view.entities[0]).toBe('team-research')
    await view.press('S')
    expect(view.terminal.screen).toContain(' tpm/S↑ ')
    await view.press('1')
    expect(view.terminal.screen).toContain('ENTITY↑')
    expect(view.entities[0]).toBe('hot-key')
    await view.press('1')
    expect(view.entities[0]).toBe('user-gone')
    await view.press('6')
    expect(view.entities[0]).toBe('hot-key')
  })
})

describe('pause', () => {
  it('stops polls and levels, and shows the age of both', async () => {
    const view = await show(SAMPLE)
    await view.press('p')
    const row = () => view.terminal.lines.find(line => line.includes('team-research'))
    const before = row()
    await view.pass(10_000)
    expect(row()).toBe(before)
    expect(view.statusLine).toContain('‖ paused: levels of 08:00:01Z, 10s ago')
    await view.press(' ')
    expect(row()).not.toBe(before)
    expect(view.watch.calls.filter(each => each.startsWith('paused'))).toEqual(['paused true', 'paused false'])
  })

  it('shows a manual poll', async () => {
    const view = await show(SAMPLE)
    await view.press('p', 'r')
    expect(view.watch.calls).toContain('poll')
    await view.pass(5000)
    view.watch.poll(many(2))
    await view.pass(100)
    expect(view.entities).toEqual(['user-00000', 'user-00001'])
    expect(view.statusLine).toContain('levels of 08:00:06Z')
  })
})

describe('between polls', () => {
  it('levels are computed (L6)', async () => {
    const view = await show(SAMPLE)
    const level = () => /team-research.*?([\d.]+)k\/100k/.exec(view.terminal.screen)?.[1]
    expect(level()).toBe('13.3')
    await view.pass(1300)
    expect(level()).toBe('14.6')
    await view.pass(1000)
    expect(level()).toBe('15.6')
  })

  it('keeps a deleted bucket for one poll, dimmed and marked', async () => {
    const view = await show(SAMPLE)
    expect(view.terminal.screen).toContain('○ user-gone')
    view.watch.poll(SAMPLE.filter(({isGone}) => !isGone))
    await view.pass(100)
    expect(view.terminal.screen).not.toContain('user-gone')
  })
})

describe('a failed poll', () => {
  it('keeps the data and shows the error until the next success', async () => {
    const view = await show(SAMPLE)
    const problem = {
      message: 'connect ECONNREFUSED',
      isThrottled: false,
      sinceMs: READ_AT_MS,
      nextTryAtMs: READ_AT_MS + 6000,
    }
    view.watch.update({problem})
    await view.pass(2400)
    expect(view.entities).toHaveLength(6)
    expect(view.statusLine).toContain('✖ cannot read for 3s, next try in 2s: connect ECONNREFUSED')
    await view.pass(5000)
    expect(view.terminal.screen).toContain('▲ stale: data 8s old')
    view.watch.poll(SAMPLE)
    await view.pass(100)
    expect(view.statusLine).toContain('? help')
    expect(view.terminal.screen).toContain('data <1s old')
  })
})

describe('panels', () => {
  it('open a detail, scroll, refresh, and return to the same row', async () => {
    const view = await show(SAMPLE, {rows: 18})
    await view.press('jj', KEY.enter)
    expect(view.watch.calls.slice(-2)).toEqual(['detail team-research#gpt-4', 'focus 1'])
    expect(view.terminal.screen).toContain('Loading details.')
    view.watch.update({detail: DETAIL})
    await view.pass(100)
    await view.press('G')
    expect(view.terminal.screen).toContain('usage: the request was throttled')
    expect(view.terminal.screen).not.toContain('alice\u001b')
    await view.press('r')
    expect(view.watch.calls.slice(-2)).toEqual(['poll', 'detail team-research#gpt-4'])
    await view.press(KEY.escape)
    expect(view.watch.calls.slice(-2)).toEqual(['detail undefined', 'focus 6'])
    expect(view.selected).toBe('team-research')
  })

  it('read the parent with every poll, and show its latest reading', async () => {
    const view = await show(SAMPLE, {rows: 30})
    await view.press('jj', KEY.enter)
    expect(view.watch.focused).toEqual(['team-research#gpt-4'])
    view.watch.update({detail: DETAIL})
    await view.pass(100)
    expect(view.watch.focused).toEqual(['team-research#gpt-4', 'org-1#gpt-4'])
    expect(view.terminal.screen).toMatch(/400,001\S* of 1,000,000/)
    const limits = {tpm: {capacity: 1_000_000, left: 7, refillPerSecond: 1}}
    view.watch.poll([...SAMPLE, readingOf(bucketOf('org-1#gpt-4', {limits}), {readAtMs: READ_AT_MS + 1000})])
    await view.pass(100)
    expect(view.terminal.screen).toMatch(/ 8\S* of 1,000,000/)
  })

  it('change with tab; health is loaded only while it is visible', async () => {
    const view = await show(SAMPLE, {columns: 120})
    await view.press(KEY.tab)
    expect(view.terminal.screen).toContain('[resources]')
    expect(view.terminal.screen).toContain('team-research 2.5k/s (tpm)')
    await view.press(KEY.tab)
    expect(view.watch.calls.at(-1)).toBe('health true')
    view.watch.update({health: HEALTH})
    await view.pass(100)
    expect(view.terminal.screen).toContain('✖ table')
    await view.press(KEY.tab)
    expect(view.watch.calls).toContain('health false')
    expect(view.terminal.screen).toContain('[overview]')
  })

  it('open a resource as a filter; esc restores the previous filter', async () => {
    const ids = ['ada#gpt-4', 'ben#gpt-4o', 'gpt-4-user#search']
    const view = await show(ids.map(id => readingOf(bucketOf(id, {limits: {rpm: {capacity: 9}}}))))
    await view.press('/gpt', KEY.enter, KEY.tab, KEY.enter)
    expect(view.terminal.screen).toContain('/resource:gpt-4  1 bucket · esc goes back')
    expect(view.entities).toEqual(['ada'])
    await view.press(KEY.escape)
    expect(view.terminal.screen).toContain('[resources]')
    await view.press(KEY.escape)
    expect(view.terminal.screen).toContain('/gpt  3 buckets · esc clears it')
    expect(view.entities).toEqual(['ada', 'ben', 'gpt-4-user'])
    await view.press(KEY.escape)
    expect(view.terminal.screen).not.toContain('/gpt ')
  })

  it('scroll the help where it is longer than the screen, and show the position', async () => {
    const view = await show(SAMPLE, {rows: 10})
    await view.press('?')
    expect(view.terminal.lines[2]).toMatch(/^Keys {2}lines 1-5 of \d+; j k scroll$/)
    expect(view.terminal.lines[3]).toContain('Ctrl-C quit')
    await view.press('j')
    expect(view.terminal.lines[2]).toMatch(/^Keys {2}lines 2-6 of /)
    expect(view.terminal.lines[3]).toContain('Ctrl-Z suspend')
    await view.press('G')
    const [, first, last, all] = /lines (\d+)-(\d+) of (\d+)/.exec(view.terminal.lines[2] ?? '') ?? []
    expect([Number(last) - Number(first), last]).toEqual([4, all])
    expect(view.terminal.lines[7]).toContain('not read in the last three polls')
    await view.press('j', 'k', 'g')
    expect(view.terminal.lines[3]).toContain('Ctrl-C quit')
    await view.press('G', KEY.escape, '?')
    expect(view.terminal.lines[3]).toContain('Ctrl-C quit')
    expect(view.selected).toBeUndefined()
    await view.press(KEY.escape)
    expect(view.selected).toBe('user-debt')
  })

  it('open the help and return', async () => {
    const view = await show(SAMPLE, {rows: 24})
    await view.press('?')
    expect(view.terminal.screen).toContain('Keys')
    await view.press('j', 's')
    expect(view.terminal.screen).toContain('Keys')
    await view.press(KEY.escape)
    expect(view.entities).toHaveLength(6)
  })

  it('show a command for the bucket', async () => {
    const view = await show(SAMPLE)
    await view.press('j', 'c')
    expect(view.statusLine).toContain('zael bucket show user-empty --resource search')
    await view.press('k')
    expect(view.statusLine).toContain('? help')
  })

  it('change the poll interval', async () => {
    const view = await show(SAMPLE)
    await view.press('-', '-', '+', '+', '+', '+')
    const asked = view.watch.calls.filter(each => each.startsWith('interval'))
    expect(asked.map(each => Number(each.slice(9)))).toEqual([5000, 10_000, 5000, 2000, 1000])
    expect(view.statusLine).toContain('polling every 1s')
  })
})
