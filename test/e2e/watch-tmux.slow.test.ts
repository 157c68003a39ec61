import {afterEach, beforeAll, describe, expect, inject, it} from 'vitest'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {engineProxy} from './engine-proxy.js'
import {populate} from './populate.js'
import {isTmuxMissing, TerminalRun} from './tmux.js'

describe.skipIf(isTmuxMissing())('the live view on a terminal', () => {
  describeOnEngine('of a table', () => {
    const table = useTable()
    const running = new Set<TerminalRun>()
    const start = async (size: {columns: number; rows: number}, endpoint = inject('engineEndpoint')) => {
      const args = ['watch', '--stack', table.name, '--endpoint-url', endpoint, '--interval', '1s']
      const terminal = await TerminalRun.start(args, {...size, env: {NO_COLOR: '1'}})
      running.add(terminal)
      return terminal
    }

    // Also after a test that ran out of time.
    afterEach(async () => {
      for (const terminal of running) await terminal.close()
      running.clear()
    })

    beforeAll(async () => {
      await populate(table)
    })

    it('draws, takes keys and another size, and leaves a line behind', async () => {
      const terminal = await start({columns: 90, rows: 20})
      const screen = await terminal.until(/3 of 3 buckets/)
      expect(screen).toMatch(/▸✖ user-1 +gpt-4 +◂/)
      expect(screen).toMatch(/ ● user-2 +search +████████ +60\/60 +rpm/)
      expect(await terminal.state()).toEqual({isAlternate: true, isCursorShown: false})
      await terminal.resize(60, 10)
      const small = await terminal.until(/^zael watch[^\n]{0,50}\n(?:.*\n){8}\? help[^\n]*\n$/)
      expect(small).not.toContain('USED/S')
      await terminal.resize(120, 24)
      await terminal.until(/IN USE/)
      await terminal.resize(80, 1)
      await terminal.until(/needs at least 40×8/)
      await terminal.resize(120, 24)
      await terminal.until(/IN USE/)
      await terminal.press('/', 'search', 'Enter')
      await terminal.until(/\/search {2}1 bucket/)
      await terminal.press('Escape')
      await terminal.until(/3 of 3 buckets/)
      await terminal.press('Enter')
      await terminal.until(/user-1 · gpt-4 {2}2 shards/)
      await terminal.press('q')
      const left = await terminal.until(/exit code 0/)
      // tmux moves lines of the alternate screen to the other one when it is resized, in front of all.
      expect(left).toMatch(
        /before\nWatched 3 buckets for \d+ s, \d+ polls?, [\d.]+ read units; 1 over, 0 near at the end\.\n/,
      )
      expect(await terminal.state()).toEqual({isAlternate: false, isCursorShown: true})
    })

    it('gives the terminal back on Ctrl-C, with code 130', async () => {
      const terminal = await start({columns: 80, rows: 24})
      await terminal.until(/3 of 3 buckets/)
      await terminal.press('C-c')
      expect(await terminal.until(/exit code/)).toMatch(/^before\nWatched .*\nexit code 130\n/)
      expect(await terminal.state()).toEqual({isAlternate: false, isCursorShown: true})
    })

    it('gives the terminal back on SIGTERM, with code 143', async () => {
      const terminal = await start({columns: 80, rows: 24})
      await terminal.until(/3 of 3 buckets/)
      await terminal.signal('SIGTERM')
      expect(await terminal.until(/exit code/)).toMatch(/^before\nWatched .*\nexit code 143\n/)
      expect(await terminal.state()).toEqual({isAlternate: false, isCursorShown: true})
    })

    it('keeps the last frame when the engine is gone, and goes on when it is back', async () => {
      let isUp = true
      await using proxy = await engineProxy(inject('engineEndpoint'), () => (isUp ? 'answered' : 'cut'))
      const terminal = await start({columns: 120, rows: 24}, proxy.endpoint)
      await terminal.until(/3 of 3 buckets/)
      isUp = false
      const screen = await terminal.until(/✖ cannot read for/)
      expect(screen).toContain('user-2')
      await terminal.until(/stale: data/)
      isUp = true
      await terminal.until(/\n\? help/)
      await terminal.press('q')
      await terminal.until(/exit code 0/)
    })
  })
})
