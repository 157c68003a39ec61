import {describe, expect, it} from 'vitest'
import {bucketOf, READ_AT_MS, readingOf} from '../support.js'
import {type DrawOptions, draw} from './draw.js'
import {DETAIL} from './fixtures.js'

const linesOf = (options: DrawOptions): string[] => draw({columns: 80, rows: 40, ...options}).split('\n')
const inDetail = (detailId: string) => ({mode: 'detail' as const, detailId})

describe('the drill-in', () => {
  it('shows the age of the parts that polls do not read', () => {
    const data = {
      detail: {...DETAIL, loadedAtMs: READ_AT_MS - 12_000},
      lastPoll: {number: 9, atMs: READ_AT_MS, durationMs: 9, readUnits: 1, calls: 1, bucketsRead: 1},
    }
    const text = draw({columns: 80, rows: 40, ageMs: 500, state: inDetail(DETAIL.id), data})
    expect(text).toContain('data <1s old')
    for (const title of ['Limits in force', 'Usage', 'Changes']) {
      expect(text).toContain(`${title}  read 12s ago\n`)
    }
  })

  it.each([40, 60, 80])('cuts no figure at %d columns', columns => {
    for (const state of [inDetail(DETAIL.id), {tab: 'overview' as const}])
      expect(linesOf({columns, rows: 60, state, data: {detail: DETAIL}}).filter(line => line.endsWith('…'))).toEqual([])
  })

  it('draws the usage of the last 24 hours, scaled to the busiest hour', () => {
    const usage = [0, 1, 2, 25].map(hours => ({
      start: new Date(READ_AT_MS - hours * 3_600_000).toISOString().replace(/:.*/, ':00:00Z'),
      counters: {tpm: hours === 25 ? 9_000_000 : 1000 * hours},
      requests: 5,
      refused: hours === 1 ? 12 : 0,
    }))
    const lines = linesOf({state: inDetail(DETAIL.id), data: {detail: {...DETAIL, usage}}})
    const from = lines.findIndex(line => line.startsWith('Usage'))
    expect(lines.slice(from + 1, from + 3)).toEqual([
      `  tpm          ${'▁'.repeat(21)}█▅▁  3k in 24 h, at most 2k/h`,
      `  refused      ${'▁'.repeat(22)}█▁  12 in 24 h, at most 12/h`,
    ])
    expect(lines[from + 4]).toMatch(/tpm 1,?000 {2}5 requests {2}12 refused$/)
  })

  it('lists the children that drain a parent, with their shares and names', () => {
    const limits = {limits: {tpm: {capacity: 100, left: 1, refillPerSecond: 0.001}}}
    const child = (id: string, rate: number) =>
      readingOf(bucketOf(id, limits), {chargedTo: 'team#r', ratePerSecond: new Map([['tpm', rate]])})
    const readings = [readingOf(bucketOf('team#r', limits)), child('ada#r', 1), child('ben#r', 3)]
    const names = new Map([
      ['ben', 'Ben Inc.'],
      ['team', 'The Team'],
    ])
    const lines = linesOf({readings, state: inDetail('team#r'), data: {names}})
    expect(lines[3]).toContain('team (The Team) · r')
    const from = lines.indexOf('Children, share of tpm used now')
    expect(lines.slice(from + 1, from + 3)).toEqual([
      '   75% ███████▌░░ ben Ben Inc.  3/s',
      '   25% ██▌░░░░░░░ ada  1/s',
    ])
    const ofChild = linesOf({readings, state: inDetail('ada#r'), data: {names}})
    expect(ofChild.join()).not.toContain('Children')
    expect(ofChild[3]).not.toContain('by its parent')
  })

  it('shows free slots and who holds the others', () => {
    const slots = {parallel: {capacity: 20, free: 13}}
    const readings = [readingOf(bucketOf('ada#r', {limits: {rpm: {capacity: 60}}, slots}))]
    const record = (id: string, host: string, ageMs: number) => ({
      ...{namespace: 'ns', id, beat: '1.x', host, pid: 991, startedAt: undefined, ttlSeconds: undefined},
      ...{beatAtMs: READ_AT_MS + 1000 - ageMs, isDead: false},
    })
    const holders = [
      {id: 'h1', slots: 4, record: record('h1', 'gw-a', 4000)},
      {id: 'h2', slots: 2, record: record('h2', 'gw-b', 41_000)},
      {id: 'h3', slots: 1, record: undefined},
    ]
    const inFlight = [{limit: 'parallel', capacity: 20, free: 13, inUse: 7, holders}]
    const detail = {...DETAIL, id: 'ada#r', parents: [], inFlight}
    const lines = linesOf({readings, state: inDetail('ada#r'), data: {detail}})
    expect(lines).toContainEqual(expect.stringMatching(/^ {2}parallel {5}█+▏? *░+ 13 of 20 {2}slots free$/))
    const from = lines.findIndex(line => line.startsWith('Slots'))
    expect(lines.slice(from + 1, from + 5)).toEqual([
      '  parallel 7 of 20 in flight',
      '    gw-a (pid 991) 4, beat 4 s ago',
      '    gw-b (pid 991) 2, no beat for 41 s',
      '    h3 1, no record',
    ])
  })

  it('shows limits in money as money', () => {
    const limits = {usd: {capacity: 5_000_000, left: 1_234_567, refillPerSecond: 0.5}}
    const reading = readingOf(bucketOf('ada#r', {limits}), {ratePerSecond: new Map([['usd', 12_500]])})
    const start = new Date(READ_AT_MS).toISOString().replace(/:.*/, ':00:00Z')
    const usage = [{start, counters: {usd: 2_500_000}, requests: 5, refused: 0}]
    const detail = {...DETAIL, id: reading.id, units: new Map([['usd', 'USD']]), usage}
    const text = draw({columns: 120, rows: 40, readings: [reading], state: inDetail(reading.id), data: {detail}})
    expect(text).toContain('$1.234567 of $5  refills $0/s, used $0.0125/s')
    expect(text).toContain('usd ██▍░░░░░░░ $1.234567/$5')
    expect(text).toContain('$2.50 in 24 h, at most $2.50/h')
    expect(text).toContain('usd $2.50  5 requests')
  })

  it('cuts neither a long id nor the name of a limit where there is room', () => {
    const id = `${'customer-'.repeat(12)}0#batch`
    const name = 'input_tokens_per_minute'
    const limits = {limits: {[name]: {capacity: 100, left: 1, refillPerSecond: 0.001}}}
    const drawn = (columns: number) =>
      linesOf({columns, readings: [readingOf(bucketOf(id, limits))], state: inDetail(id)})
    const [entity = ''] = id.split('#')
    expect(drawn(200).join('\n')).toContain(`${entity} · batch  1 shard`)
    const narrow = drawn(80)
    expect(narrow.slice(3, 6)).toEqual([
      expect.stringMatching(new RegExp(`^. ${entity.slice(0, 78)}$`)),
      `  ${entity.slice(78)} · batch`,
      expect.stringMatching(/^ {2}1 shard, read /),
    ])
    for (const columns of [100, 120, 200]) expect(drawn(columns).join('\n')).toContain(`  ${name} `)
    for (const columns of [60, 80, 100, 200])
      for (const line of drawn(columns)) expect(line.length).toBeLessThanOrEqual(columns)
  })

  it('names and shows every charged ancestor', () => {
    const limits = {rpm: {capacity: 60}}
    const chain = [
      readingOf(bucketOf('key#r', {limits, parent: 'team'}), {chargedTo: 'team#r', mostLevels: 8}),
      readingOf(bucketOf('team#r', {limits, parent: 'org'}), {chargedTo: 'org#r', mostLevels: 8}),
      readingOf(bucketOf('org#r', {limits: {rpm: {capacity: 500, left: 490}}}), {mostLevels: 8}),
    ]
    const detail = {...DETAIL, id: 'key#r', parents: chain.slice(1)}
    // Polls of one entity read only its own buckets.
    for (const readings of [chain, chain.slice(0, 1)]) {
      const text = draw({columns: 100, rows: 40, readings, state: inDetail('key#r'), data: {detail}})
      expect(text).toContain('also charged to team and org')
      expect(text).toMatch(/Parent team\n {2}rpm [^\n]* of 60\n\nParent org\n {2}rpm [^\n]* of 500\n/)
    }
  })

  it('keeps counting ages while it is paused', () => {
    const state = {...inDetail(DETAIL.id), pausedAtMs: READ_AT_MS + 1000}
    const text = draw({columns: 100, rows: 40, ageMs: 9000, state, data: {detail: DETAIL}})
    expect(text).toContain('also charged to org-1, read 9s ago')
    expect(text).toContain('Usage  read 9s ago')
  })

  it('shows the writes of every shard between two readings, and a dash before', () => {
    const shard = {limits: {rps: {capacity: 90, left: 10}}}
    const bucket = bucketOf('hot#search', shard, shard, shard)
    const writePressures = new Map([
      [0, 0.86],
      [1, 0],
    ])
    const reading = readingOf(bucket, {writePressure: 0.86, writePressures})
    const shards = linesOf({readings: [reading], state: inDetail(reading.id)}).filter(line => line.includes('writes'))
    expect(shards.map(line => line.slice(line.indexOf('writes')))).toEqual(['writes 86%', 'writes 0%', 'writes –'])
  })

  it('never shows a slow refill as zero', () => {
    const limits = {
      rpm: {capacity: 60, refillPerSecond: 1},
      usd: {capacity: 50, refillPerSecond: 50, refillPeriodMs: 86_400_000},
    }
    const reading = readingOf(bucketOf('ada#gpt-4', {limits}))
    const text = draw({columns: 80, rows: 20, readings: [reading], state: inDetail(reading.id)})
    expect(text).toContain('50 of 50  refills <0.01/s')
    expect(text).toContain('60 of 60  refills 1/s')
  })

  it('shows the limits of a shard with the tightest first, on as many lines as they need', () => {
    const names = ['alpha', 'beta', 'delta', 'gamma']
    const limits = Object.fromEntries(names.map((name, at) => [name, {capacity: 1000, left: 900 - 200 * at}]))
    const reading = readingOf(bucketOf('ada#gpt-4', {limits}), {writePressures: new Map([[0, 0.25]])})
    const at = (columns: number) => {
      const lines = draw({columns, rows: 24, ageMs: 0, readings: [reading], state: inDetail(reading.id)}).split('\n')
      const from = lines.indexOf('Shards') + 1
      return lines.slice(from, lines.indexOf('', from)).map(line => line.replaceAll(/ [█▉▊▋▌▍▎▏░]+ /g, ' '))
    }
    expect(at(130)).toEqual(['    0 gamma 300/1k  delta 500/1k  beta 700/1k  alpha 900/1k  writes 25%'])
    expect(at(60)).toEqual(['    0 gamma 300/1k  delta 500/1k', '      beta 700/1k  alpha 900/1k', '      writes 25%'])
    expect(at(40)).toHaveLength(5)
  })
})
