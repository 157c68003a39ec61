import {beforeAll, expect, it} from 'vitest'
import {windowStart} from '../../src/lib/core/window.js'
import {encodeUsage} from '../../src/lib/schema/usage-record.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {populate} from './populate.js'
import {tableCli} from './table-cli.js'
import {zael} from './zael.js'

const DAY_MS = 86_400_000

describeOnEngine('zael cost', () => {
  const table = useTable()
  const cli = tableCli(table)
  const atMs = Date.now()

  // The same in every day that the command may look at, should midnight come in between.
  beforeAll(async () => {
    const namespace = await populate(table)
    for (const daysAgo of [0, 1, 2]) {
      const start = windowStart('daily', atMs - daysAgo * DAY_MS)
      const tokens = new Map([['rpm', 1000]])
      const subject = {namespace, entity: 'user-2', resource: 'gpt-4', window: 'daily', start} as const
      const Item = encodeUsage({...subject, tokens, totalEvents: 1000, ttlSeconds: undefined})
      await table.transport.send('PutItem', {TableName: table.name, Item})
    }
  })

  it('shows parts and days, and the source of each figure', async () => {
    const lines = (await cli.show('cost --days 1', 100)).split('\n')
    expect(lines[0]).toBe(`Cost of stack ${table.name}, on this machine: ${lines[0]?.slice(-16, -6)} (UTC)`)
    expect(lines).toContainEqual(expect.stringMatching(/^admissions +<0.01 +0\.63 +1,000 +write units +estimated$/))
    expect(lines).toContainEqual(expect.stringMatching(/^20\d\d-\d\d-\d\d +1,000 +0 +<?0\.\d\d +estimated$/))
    expect(lines).toContainEqual(expect.stringMatching(/^20\d\d-\d\d-\d\d +1,000 +0 +<?0\.\d\d +estimated, so far$/))
    expect(lines).toContain('Prices: US dollars, list prices of us-east-1 (2026-11) without the free tier')
    expect(lines).toContainEqual(
      expect.stringMatching(/^This report used [\d.,]+ read units of the table, and wrote nothing\.$/),
    )
  })

  it('breaks lines between words in 60 columns', async () => {
    const {stdout} = await zael(['cost', '--days', '1', ...cli.flags], {env: {NO_COLOR: '1'}, columns: 60})
    const lines = stdout.split('\n')
    expect(lines.filter(line => line.length > 60)).toEqual([])
    const asWide = (await cli.show('cost --days 1', 200)).split(/\s+/)
    expect(lines.join(' ').split(/\s+/).slice(-20)).toEqual(asWide.slice(-20))
  })

  it('--json matches its schema, with null for a day without figures', async () => {
    const result = await cli.tell('cost --days 9')
    expect(result).toMatchObject({
      region: null,
      decisionsPerDay: 1000,
      indexWrites: null,
      prices: {region: 'us-east-1'},
    })
    expect(result.days).toHaveLength(10)
    expect(result.days[0]).toMatchObject({admitted: null, refused: null, dollars: null, source: null, complete: true})
    expect(result.days.at(-1)).toMatchObject({complete: false})
  })

  it('refuses bad input', async () => {
    for (const days of ['0', '91', 'x', '1.5']) expect(await cli.fail(`cost --days ${days}`)).toMatchObject({code: 2})
  })
})
