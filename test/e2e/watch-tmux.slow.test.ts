import {afterEach, beforeAll, describe, expect, inject, it} from 'vitest'
import {Repository} from '../../src/lib/repository/repository.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {engineProxy} from './engine-proxy.js'
import {populate} from './populate.js'
import {readOnlyProxy} from './read-only-proxy.js'
import {isTmuxMissing, TerminalRun} from './tmux.js'

describe.skipIf(isTmuxMissing())('the live view on a terminal', () => {
  describeOnEngine('of a table', () => {
    const table = useTable()
    const running = new Set<TerminalRun>()
    const start = async (
      size: {columns: number; rows: number},
      endpoint = inject('engineEndpoint'),
      {then = '', ...env}: Record<string, string> = {},
      ...flags: string[]
    ) => {
      const args = ['watch', '--stack', table.name, '--endpoint-url', endpoint, '--interval', '1s', ...flags]
      const terminal = await TerminalRun.start(args, {...size, then, env: {NO_COLOR: '1', ...env}})
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

    it('draws, responds to keys and resizing, and leaves a line behind', async () => {
      const terminal = await start({columns: 90, rows: 20})
      await terminal.until(
        /3 of 3 buckets/,
        /▸✖ user-1 +gpt-4 +◂/,
        / ● user-2 +search +████████ +60\/60 +rpm/,
        /\n\? help/,
      )
      expect(await terminal.state()).toEqual({isAlternate: true, isCursorShown: false})
      await terminal.resize(60, 10)
      await terminal.until(/^zael watch[^\n]{0,50}\n(?:.*\n){8}\? help[^\n]*\n$/, /^(?![\s\S]*\bUSED\/S)/)
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
      const left = await terminal.until(/exit code 0\n/)
      // tmux moves lines of the alternate screen to the other one when it is resized, in front of all.
      expect(left).toMatch(
        /before\nWatched 3 buckets for \d+ s, \d+ polls?, [\d.]+ read units; 1 over, 0 near at the end\.\n/,
      )
      expect(await terminal.state()).toEqual({isAlternate: false, isCursorShown: true})
    })

    it('shows a command that selects the same bucket', async () => {
      const terminal = await start({columns: 200, rows: 20})
      await terminal.until(/3 of 3 buckets/)
      await terminal.press('c')
      const where = `--stack ${table.name} --endpoint-url ${inject('engineEndpoint')}`
      await terminal.until(new RegExp(`zael bucket show user-1 --resource gpt-4 ${where}`))
      await terminal.press('q')
      await terminal.until(/exit code 0/)
    })

    it('asks with the command before an action, runs and audits it, and leaves a line in the scrollback', async () => {
      const tenant = await new Repository({stack: table.name, transport: table.transport}).namespace()
      const before = (await tenant.audit.list({entity: 'user-2'})).records.length
      const terminal = await start(
        {columns: 120, rows: 24},
        inject('engineEndpoint'),
        {},
        '--actions',
        '--entity',
        'user-2',
      )
      await terminal.until(/2 of 2 buckets/, /R reset · B boost · X block/)
      await terminal.press('X')
      await terminal.until(/Block user-2/, /This refuses every request of user-2 for all resources/, /y\/N/)
      await terminal.press('n')
      await terminal.until(/cancelled: nothing was changed/)
      await terminal.press('X')
      await terminal.until(/y\/N/, new RegExp(`zael entity disable user-2 --stack ${table.name}`))
      await terminal.press('y')
      await terminal.until(/: done/, /access +\(none\) → disabled/, /live buckets +2 \w+/)
      await terminal.press('Escape')
      await terminal.until(/user-2 +gpt-4 +disabled/, /user-2 +search +disabled/)
      await terminal.press('X')
      await terminal.until(/Unblock user-2/, /zael entity enable user-2/)
      await terminal.press('y')
      await terminal.until(/access +disabled → \(none\)/)
      await terminal.press('q')
      const left = await terminal.until(/exit code 0\n/)
      expect(left).toMatch(/Watched 2 buckets .*\n.*zael entity disable user-2 .*(\n.*)*zael entity enable user-2/)
      const {records} = await tenant.audit.list({entity: 'user-2'})
      expect(records.length - before).toBe(2)
    })

    it('ignores action keys without --actions', async () => {
      await using proxy = await readOnlyProxy(inject('engineEndpoint'))
      const reading = await start({columns: 120, rows: 24}, proxy.endpoint)
      await reading.until(/3 of 3 buckets/)
      await reading.press('R', 'X', 'B', 'y')
      await reading.until(/Why user-1/, /refuses/)
      await reading.press('R', 'y', 'X', 'y', 'B', 'Enter', 'y')
      await reading.until(/Why user-1/)
      await reading.press('q')
      await reading.until(/exit code 0/)
      expect(proxy.takeWrites()).toEqual([])
    })

    it('quits at once on q, even while a read for an action is pending', async () => {
      let isDeaf = false
      await using proxy = await engineProxy(inject('engineEndpoint'), () => (isDeaf ? 'unanswered' : 'answered'))
      const terminal = await start({columns: 120, rows: 24}, proxy.endpoint, {}, '--actions')
      await terminal.until(/3 of 3 buckets/)
      isDeaf = true
      await terminal.press('R')
      await terminal.until(/Loading the effect/)
      await terminal.press('q')
      await terminal.until(/exit code 0/)
    })

    it('quits at once on q, even while reads for the detail and the health are pending', async () => {
      let isDeaf = false
      let late = 0
      let hasQuit = false
      await using proxy = await engineProxy(inject('engineEndpoint'), () => {
        if (hasQuit) late++
        return isDeaf ? 'unanswered' : 'answered'
      })
      const terminal = await start({columns: 120, rows: 24}, proxy.endpoint)
      await terminal.until(/3 of 3 buckets/)
      isDeaf = true
      await terminal.press('Enter')
      await terminal.until(/user-1 · gpt-4 {2}2 shards/)
      await terminal.press('Escape')
      await terminal.until(/ENTITY/)
      await terminal.press('Tab', 'Tab')
      await terminal.until(/\[health\]/)
      hasQuit = true
      await terminal.press('q')
      await terminal.until(/exit code 0/)
      // Whoever waited for answers would have asked again and again meanwhile. While the key is on its way, each of the three reads
      // under way (buckets, detail, health) may be due for its next attempt.
      expect(late).toBeLessThanOrEqual(3)
    })

    it('prints lines on a terminal that cannot move its cursor', async () => {
      const terminal = await start({columns: 200, rows: 20}, inject('engineEndpoint'), {TERM: 'dumb'})
      await terminal.until(/Z {2}3 buckets, 1 over, 0 near, 1 in debt {2}worst user-1 gpt-4/)
      expect(await terminal.state()).toEqual({isAlternate: false, isCursorShown: true})
      await terminal.signal('SIGTERM')
      await terminal.until(/exit code 143/)
    })

    it('restores the terminal on Ctrl-C, and exits with 130', async () => {
      const terminal = await start({columns: 80, rows: 24})
      await terminal.until(/3 of 3 buckets/)
      await terminal.press('C-c')
      expect(await terminal.until(/exit code \d+\n/)).toMatch(/^before\nWatched .*\nexit code 130\n/)
      expect(await terminal.state()).toEqual({isAlternate: false, isCursorShown: true})
    })

    it('restores the terminal on Ctrl-Z, and redraws in its current size after fg', async () => {
      const then = 'echo "stopped with $?"; stty -a | grep -ow -e -*icanon -e -*echo; read -r _; fg; '
      const terminal = await start({columns: 80, rows: 24}, inject('engineEndpoint'), {then})
      await terminal.until(/3 of 3 buckets/)
      await terminal.press('C-z')
      // 20 is SIGTSTP. Without a minus, the terminal reads lines and echoes them.
      expect(await terminal.until(/icanon\n-?echo\n/)).toMatch(/^before\n(?:.*\n)*stopped with 148\nicanon\necho\n/)
      expect(await terminal.state()).toEqual({isAlternate: false, isCursorShown: true})
      await terminal.resize(120, 24)
      await terminal.press('Enter')
      await terminal.until(/^zael watch/, /IN USE/, /\n\? help/)
      expect(await terminal.state()).toEqual({isAlternate: true, isCursorShown: false})
      await terminal.press('/', 'search', 'Enter')
      await terminal.until(/\/search {2}1 bucket/)
      await terminal.press('q')
      expect(await terminal.until(/exit code \d+\n/)).toMatch(/Watched .*\nexit code 0\n/)
      expect(await terminal.state()).toEqual({isAlternate: false, isCursorShown: true})
    })

    it('restores the terminal on SIGTERM, and exits with 143', async () => {
      const terminal = await start({columns: 80, rows: 24})
      await terminal.until(/3 of 3 buckets/)
      await terminal.signal('SIGTERM')
      expect(await terminal.until(/exit code \d+\n/)).toMatch(/^before\nWatched .*\nexit code 143\n/)
      expect(await terminal.state()).toEqual({isAlternate: false, isCursorShown: true})
    })

    it('keeps the last frame while the engine is unavailable, and continues afterwards', async () => {
      let isUp = true
      await using proxy = await engineProxy(inject('engineEndpoint'), () => (isUp ? 'answered' : 'cut'))
      const terminal = await start({columns: 120, rows: 24}, proxy.endpoint)
      await terminal.until(/3 of 3 buckets/)
      isUp = false
      await terminal.until(/✖ cannot read for/, /user-2/)
      await terminal.until(/stale: data/)
      isUp = true
      await terminal.until(/\n\? help/)
      await terminal.press('q')
      await terminal.until(/exit code 0/)
    })
  })
})
