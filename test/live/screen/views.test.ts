import {describe, expect, it} from 'vitest'
import type {Reading} from '../../../src/lib/live/model/model.js'
import {NO_REQUESTS} from '../../../src/lib/live/model/request-counts.js'
import type {ScreenState} from '../../../src/lib/live/state/screen-state.js'
import {bucketOf, READ_AT_MS, readingOf} from '../support.js'
import {draw} from './draw.js'
import {DETAIL, HEALTH} from './fixtures.js'

const BY_ENTITY = {sort: 'entity', reversed: false, filter: ''} as const

describe('the overview', () => {
  it('distinguishes refusals of the bucket from those of its parent', () => {
    const of = (id: string, left: number, own: number, byParent: number, rest: Partial<Reading> = {}) =>
      readingOf(bucketOf(id, {limits: {tpm: {capacity: 1000, left, refillPerSecond: 0.001}}}), {
        requests: {...NO_REQUESTS, refusedPerSecond: {own, byParent}},
        ...rest,
      })
    const readings = [
      of('team#gpt-4', 200, 12, 0, {typical: [250]}),
      of('child#gpt-4', 900, 0, 8.5, {chargedTo: 'team#gpt-4', typical: [250]}),
      of('other#gpt-4', 900, 0, 0),
    ]
    const lines = (columns: number) => draw({rows: 9, columns, readings}).split('\n').slice(3, 8)
    expect(lines(80).join('\n')).toMatchInlineSnapshot(`
      "   ENTITY        RESOURCE LEVEL    LEFT/CAP↑     LIMIT  USED/S REFUSED/S   UNTIL
      ▸✖ team          gpt-4    █▌░░░░░░    200/1k     tpm         –        12       –
       ✖ child         gpt-4    ↑ parent    900/1k     tpm         –       8.5       –
       ● other         gpt-4    ███████▏    900/1k     tpm         –         0       –
      "
    `)
    expect(lines(40).join('\n')).toMatchInlineSnapshot(`
      "   ENTITY         RESOURCE LEFT/CAP↑
      ▸✖ team           gpt-4       200/1k
       ✖ child          gpt-4    ↑ parent
       ● other          gpt-4       900/1k
      "
    `)
  })

  it('shows limits in money as money, in the list, in the sums and by resource', () => {
    const of = (id: string, name: string, left: number) =>
      readingOf(bucketOf(id, {limits: {[name]: {capacity: 500_000_000, left, refillPerSecond: 1}}}), {
        ratePerSecond: new Map([[name, 2_500_000]]),
      })
    const readings = [of('ada#gpt-4', 'usd', 12_345_678), of('ben#gpt-4', 'chf', 400_000_000), of('eve#a', 'tpm', 5)]
    const units = new Map([
      ['usd', 'USD'],
      ['chf', 'CHF'],
    ])
    const screen = draw({rows: 9, columns: 100, readings, data: {units}, state: {selection: BY_ENTITY}})
    expect(screen.split('\n').slice(4, 8).join('\n')).toMatchInlineSnapshot(`
      "▸▲ ada                   gpt-4        ▏░░░░░░░  $12.3/$500   usd      $2.5         –       1     ↓4s
       ● ben                   gpt-4        ██████▍░ 400CHF/500CHF chf    2.5CHF         –       1  ↓2m40s
       ▲ eve                   a            ▏░░░░░░░      6/500M   tpm      2.5M         –       1    ↓<1s
      "
    `)
    const resources = draw({rows: 9, columns: 120, readings, data: {units}, state: {tab: 'resources'}})
    expect(resources.split('\n').slice(3, 7).join('\n')).toMatchInlineSnapshot(`
      "  RESOURCE       ENTITIES LEVEL    LEFT/CAP      LIMIT  USED/S REFUSED/S   OVER   NEAR MOST USED BY
      ▸ a                     1 ▏░░░░░░░      6/500M   tpm      2.5M         0      0     ▲1 eve 2.5M/s (tpm)
        gpt-4                 2 ▏░░░░░░░  $12.3/$500   usd      $2.5         0      0     ▲1 ben 2.5CHF/s (chf)
      "
    `)
  })

  it('shows names beside ids where there is room', () => {
    const names = new Map([
      ['user-debt', 'Acme Corporation'],
      ['team-research', 'R&D'],
    ])
    const lines = (columns: number) => draw({columns, data: {names}}).split('\n').slice(4, 7)
    expect(lines(120).map(line => line.slice(0, 24))).toEqual([
      '▸✖ user-debt Acme … gpt-',
      ' ✖ user-empty       sear',
      ' ▲ team-research    gpt-',
    ])
  })

  it('explains a bucket, with commands on as many lines as they need', () => {
    const id = 'user-debt#gpt-4'
    const command =
      '  zael limits set --entity user-debt --resource gpt-4 tpm=200k/min  double the rate of entity user-debt'
    const why = {
      id,
      loadedAtMs: READ_AT_MS,
      lines: ['user-debt cannot have 1 tpm now.', '', 'To admit it sooner:', command],
    }
    expect(draw({columns: 60, rows: 12, state: {mode: 'why', whyId: id}, data: {why}})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1             [overview]
      data 1s old · 5 of 5 buckets · 12.5 read units/poll
      Why user-debt · gpt-4  read 1s ago

      user-debt cannot have 1 tpm now.

      To admit it sooner:
        zael limits set --entity user-debt --resource gpt-4 \\
            tpm=200k/min
            double the rate of entity user-debt
      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · 6 shards
      esc back · q quit · ? help · r refresh
      "
    `)
    expect(draw({state: {mode: 'why', whyId: id}})).toContain('Loading.')
  })

  it('reports a filter that can match nothing', () => {
    const selection = {sort: 'left', reversed: false, filter: 'status:nonsense'} as const
    expect(draw({state: {mode: 'filter', selection}})).toContain(
      '/status:nonsense_  not a status: ok, overdrawn, near, over, disabled, gone',
    )
  })

  it('at 60 columns', () => {
    expect(draw({columns: 60})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1             [overview]
      data 1s old · 5 of 5 buckets · 12.5 read units/poll
         ENTITY          RESOURCE LEVEL    LEFT/CAP↑     REFUSED/S
      ▸✖ user-debt       gpt-4    ◂▚▚░░░░░ -24.9k/100k           –
       ✖ user-empty      search   ▏░░░░░░░    0.1/10             –
       ▲ team-research   gpt-4    █░░░░░░░  13.3k/100k           –
       ● hot-key         search   ████▉░░░  1.22k/2k             –
       ● user-fresh      a-resou… ████████     60/60             –
       ○ user-gone       gpt-4    ████████     1k/1k             –

      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · 6 shards
      ? help · q quit · / filter · s sort: left · enter open
      "
    `)
  })

  it('at 80 columns', () => {
    expect(draw({columns: 80})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1              [overview] resources  health
      data 1s old · 5 of 5 buckets · 12.5 read units/poll · every 2s
         ENTITY        RESOURCE LEVEL    LEFT/CAP↑     LIMIT  USED/S REFUSED/S   UNTIL
      ▸✖ user-debt     gpt-4    ◂▚▚░░░░░ -24.9k/100k   tpm         0         – ↑20m49s
       ✖ user-empty    search   ▏░░░░░░░    0.1/10     rps         4         –    ↓<1s
       ▲ team-research gpt-4    █░░░░░░░  13.3k/100k   tpm      2.5k         –     ↓8s
       ● hot-key       search   ████▉░░░  1.22k/2k     rps        10         –  ↑1m18s
       ● user-fresh    a-resou… ████████     60/60     rpm         –         –    full
       ○ user-gone     gpt-4    ████████     1k/1k     tpm         –         –    full

      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s · used tpm 2.5k/s
      ? help · q quit · / filter · s sort: left · enter open · y why · tab resources
      "
    `)
  })

  it('at 120 columns', () => {
    expect(draw({columns: 120})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1                                                      [overview] resources  health
      data 1s old · 5 of 5 buckets · 12.5 read units/poll · every 2s
         ENTITY           RESOURCE     LEVEL    LEFT/CAP↑     LIMIT  USED/S REFUSED/S IN USE            SHARDS  WRITES   UNTIL
      ▸✖ user-debt        gpt-4        ◂▚▚░░░░░ -24.9k/100k   tpm         0         – ·············▅██       1      0% ↑20m49s
       ✖ user-empty       search       ▏░░░░░░░    0.1/10     rps         4         – ·············███       1      0%    ↓<1s
       ▲ team-research    gpt-4        █░░░░░░░  13.3k/100k   tpm      2.5k         – ▆▇█▁▂▃▄·▅▆▇█▁▂▃▄       1      0%     ↓8s
       ● hot-key          search       ████▉░░░  1.22k/2k     rps        10         – ·············▂▃▄   2±60%   ▲ 86%  ↑1m18s
       ● user-fresh       a-resource-… ████████     60/60     rpm         –         – ················       1       –    full
       ○ user-gone        gpt-4        ████████     1k/1k     tpm         –         – ················       1       –    full

      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s · used tpm 2.5k/s · 6 shards
      ? help · q quit · / filter · s sort: left · enter open · y why · tab resources · p pause
      "
    `)
  })

  it('at 200 columns', () => {
    expect(draw({columns: 200})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1                                                                                                                                      [overview] resources  health
      data 1s old · 5 of 5 buckets · 12.5 read units/poll · every 2s
         ENTITY                              RESOURCE             LEVEL        LEFT/CAP↑     LIMIT       USED/S REFUSED/S IN USE                                                        SHARDS  WRITES   UNTIL
      ▸✖ user-debt                           gpt-4                ◂▚▚▚░░░░░░░░ -24.9k/100k   tpm              0         – ·························································▅██       1      0% ↑20m49s
       ✖ user-empty                          search               ▏░░░░░░░░░░░    0.1/10     rps              4         – ·························································███       1      0%    ↓<1s
       ▲ team-research                       gpt-4                █▌░░░░░░░░░░  13.3k/100k   tpm           2.5k         – ····················▁▂▃▄▅·▆▇█▁▂▃▄▅▅▆▇█·▂▃▄▅▅▆▇█▁▂▃▄·▅▆▇█▁▂▃▄       1      0%     ↓8s
       ● hot-key                             search               ███████▎░░░░  1.22k/2k     rps             10         – ·························································▂▃▄   2±60%   ▲ 86%  ↑1m18s
       ● user-fresh                          a-resource-with-a-l… ████████████     60/60     rpm              –         – ····························································       1       –    full
       ○ user-gone                           gpt-4                ████████████     1k/1k     tpm              –         – ····························································       1       –    full

      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s · used tpm 2.5k/s · 6 shards
      ? help · q quit · / filter · s sort: left · enter open · y why · tab resources · p pause
      "
    `)
  })

  it('at 40×8, the smallest', () => {
    expect(draw({columns: 40, rows: 8})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default     [overview]
      data 1s old · 5 of 5 buckets · every 2s
         ENTITY         RESOURCE LEFT/CAP↑
      ▸✖ user-debt      gpt-4    -24.9k/100k
       ✖ user-empty     search      0.1/10
       ▲ team-research  gpt-4     13.3k/100k
      5 buckets · ✖ 2 over · ▲ 1 near 1–3 of 6
      ? help · q quit · / filter · enter open
      "
    `)
  })

  it('with wide names', () => {
    expect(draw({columns: 80, rows: 8, state: {isWide: true}})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1              [overview] resources  health
      data 1s old · 5 of 5 buckets · 12.5 read units/poll · every 2s
         ENTITY                       RESOURCE LEFT/CAP↑      USED/S REFUSED/S   UNTIL
      ▸✖ user-debt                    gpt-4    -24.9k/100k         0         – ↑20m49s
       ✖ user-empty                   search      0.1/10           4         –    ↓<1s
       ▲ team-research                gpt-4     13.3k/100k      2.5k         –     ↓8s
      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s           1–3 of 6
      ? help · q quit · / filter · s sort: left · enter open · y why · tab resources
      "
    `)
  })

  it('with --ascii', () => {
    const text = draw({columns: 120, ascii: true})
    expect(text).toMatch(/^[\n\x20-\x7e]*$/)
    expect(text).toMatchInlineSnapshot(`
      "
      zael watch | prod/default | eu-west-1                                                      [overview] resources  health
      data 1s old | 5 of 5 buckets | 12.5 read units/poll | every 2s
         ENTITY           RESOURCE     LEVEL    LEFT/CAP^     LIMIT  USED/S REFUSED/S IN USE            SHARDS  WRITES   UNTIL
      >X user-debt        gpt-4        [<xx   ] -24.9k/100k   tpm         0         -              =##       1      0% ^20m49s
       X user-empty       search       [_     ]    0.1/10     rps         4         -              ###       1      0%    v<1s
       ! team-research    gpt-4        [+     ]  13.3k/100k   tpm      2.5k         - +*#_.:- =+*#_.:-       1      0%     v8s
       o hot-key          search       [###=  ]  1.22k/2k     rps        10         -              .:-   2~60%   ! 86%  ^1m18s
       o user-fresh       a-resource-~ [######]     60/60     rpm         -         -                        1       -    full
       - user-gone        gpt-4        [######]     1k/1k     tpm         -         -                        1       -    full

      5 buckets | X 2 over | ! 1 near | < 1 in debt | used rps 14/s | used tpm 2.5k/s | 6 shards
      ? help | q quit | / filter | s sort: left | enter open | y why | tab resources | p pause
      "
    `)
  })

  it('filtered, while the filter is typed', () => {
    const selection = {sort: 'rate' as const, reversed: true, filter: 'search'}
    expect(draw({state: {mode: 'filter', selection}})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1              [overview] resources  health
      data 1s old · 3 of 5 buckets · 12.5 read units/poll · every 2s
         ENTITY        RESOURCE LEVEL    LEFT/CAP      LIMIT  tpm/S↑ REFUSED/S   UNTIL
      ▸▲ team-research gpt-4    █░░░░░░░  13.3k/100k   tpm      2.5k         –     ↓8s
       ● hot-key       search   ████▉░░░  1.22k/2k     rps         –         –  ↑1m18s
       ✖ user-empty    search   ▏░░░░░░░    0.1/10     rps         –         –    ↓<1s



      3 of 5 buckets · ✖ 1 over · ▲ 1 near · ◂ 0 in debt · used rps 14/s · 4 shards
      /search_  3 buckets
      enter keep · esc drop · !text inverts · status:over · resource:NAME
      "
    `)
  })

  it('sorted by the rate of a limit with a long name, which some buckets lack', () => {
    const rates = {capacity: 1000, left: 500}
    const readings = [
      readingOf(bucketOf('ada#x', {limits: {'requests-per-day': rates, rpm: {capacity: 100, left: 1}}}), {
        ratePerSecond: new Map([
          ['requests-per-day', 70],
          ['rpm', 2],
        ]),
      }),
      readingOf(bucketOf('ben#x', {limits: {rpm: rates}}), {ratePerSecond: new Map([['rpm', 3]])}),
    ]
    const selection = {sort: 'rate' as const, reversed: false, filter: ''}
    const [title, ada, ben] = draw({rows: 9, readings, state: {selection}}).split('\n').slice(3, 6)
    expect(title).toMatch(/ LIMIT req…\/S↓ /)
    expect([ada, ben].map(line => line?.slice(49, 64).trim())).toEqual(['rpm        70', 'rpm         –'])
  })

  it('with a filter that nothing matches', () => {
    const selection = {sort: 'left' as const, reversed: false, filter: 'no-one'}
    expect(draw({rows: 8, state: {selection}})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1              [overview] resources  health
      data 1s old · 0 of 5 buckets · 12.5 read units/poll · every 2s
         ENTITY        RESOURCE LEVEL    LEFT/CAP↑     LIMIT  USED/S REFUSED/S   UNTIL
         No buckets match "no-one". Esc clears the filter.

      0 of 5 buckets · ✖ 0 over · ▲ 0 near · ◂ 0 in debt · 0 shards
      /no-one  0 buckets · esc clears it
      ? help · q quit · / filter · s sort: left · enter open · y why · tab resources
      "
    `)
  })

  it('of an empty table', () => {
    expect(draw({rows: 8, readings: []})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1              [overview] resources  health
      data 1s old · 0 of 0 buckets · 12.5 read units/poll · every 2s
         ENTITY        RESOURCE LEVEL    LEFT/CAP↑     LIMIT  USED/S REFUSED/S   UNTIL
         No buckets: nothing was consumed yet, or all have expired.


      0 buckets · ✖ 0 over · ▲ 0 near · ◂ 0 in debt · 0 shards
      ? help · q quit · / filter · s sort: left · enter open · y why · tab resources
      "
    `)
  })

  it('with the first rows only', () => {
    expect(draw({rows: 9, top: 2})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1              [overview] resources  health
      data 1s old · 2 of 5 buckets · 12.5 read units/poll · every 2s
         ENTITY        RESOURCE LEVEL    LEFT/CAP↑     LIMIT  USED/S REFUSED/S   UNTIL
      ▸✖ user-debt     gpt-4    ◂▚▚░░░░░ -24.9k/100k   tpm         0         – ↑20m49s
       ✖ user-empty    search   ▏░░░░░░░    0.1/10     rps         4         –    ↓<1s


      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s · used tpm 2.5k/s
      ? help · q quit · / filter · s sort: left · enter open · y why · tab resources
      "
    `)
  })

  it('with sampled polls, before the index was listed to its end', () => {
    const lastPoll = {number: 3, atMs: READ_AT_MS, durationMs: 9, readUnits: 49.5, calls: 3, bucketsRead: 80}
    expect(
      draw({rows: 8, data: {known: {count: 1000, isComplete: false, unreadable: 0}, lastPoll}}),
    ).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1              [overview] resources  health
      data 1s old · 5 buckets, sampled 80 of 1,000+ · 49.5 read units/poll · every 2s
         ENTITY        RESOURCE LEVEL    LEFT/CAP↑     LIMIT  USED/S REFUSED/S   UNTIL
      ▸✖ user-debt     gpt-4    ◂▚▚░░░░░ -24.9k/100k   tpm         0         – ↑20m49s
       ✖ user-empty    search   ▏░░░░░░░    0.1/10     rps         4         –    ↓<1s
       ▲ team-research gpt-4    █░░░░░░░  13.3k/100k   tpm      2.5k         –     ↓8s
      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s           1–3 of 6
      ? help · q quit · / filter · s sort: left · enter open · y why · tab resources
      "
    `)
  })

  it('L6 marks rows that were not read for more than three polls', () => {
    const polled = (afterMs: number) => {
      const lastPoll = {
        number: 9,
        atMs: READ_AT_MS + afterMs,
        durationMs: 9,
        readUnits: 49.5,
        calls: 3,
        bucketsRead: 80,
      }
      return draw({rows: 8, ageMs: afterMs + 1000, data: {lastPoll}})
    }
    expect(polled(6000)).toContain('▸✖ user-debt')
    expect(polled(6001)).toContain('▸✖~user-debt')
    expect(polled(6001)).toContain('data 1s old')
  })

  it('with stale data and a failed poll', () => {
    const problem = {
      message: 'connect ECONNREFUSED 127.0.0.1:8000',
      isThrottled: false,
      sinceMs: READ_AT_MS + 2000,
      nextTryAtMs: READ_AT_MS + 12_000,
    }
    expect(draw({rows: 9, ageMs: 7000, data: {problem}})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1              [overview] resources  health
      ▲ stale: data 7s old · 5 of 5 buckets · 12.5 read units/poll · every 2s
         ENTITY        RESOURCE LEVEL    LEFT/CAP↑     LIMIT  USED/S REFUSED/S   UNTIL
      ▸✖ user-debt     gpt-4    ◂▚▚░░░░░ -24.3k/100k   tpm         0         – ↑20m43s
       ✖ user-empty    search   ▌░░░░░░░    0.7/10     rps         4         –    ↓<1s
       ▲ team-research gpt-4    █▌░░░░░░  19.3k/100k   tpm      2.5k         –    ↓12s
       ● hot-key       search   █████▎░░  1.34k/2k     rps        10         –  ↑1m06s
      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s           1–4 of 6
      ✖ cannot read for 5s, next try in 5s: connect ECONNREFUSED 127.0.0.1:8000
      "
    `)
  })

  it('with throttled polls', () => {
    const problem = {message: 'throughput exceeded', isThrottled: true, sinceMs: READ_AT_MS, nextTryAtMs: READ_AT_MS}
    expect(draw({rows: 8, data: {problem}})).toContain('✖ throttled for 1s, trying again: throughput exceeded')
  })

  it('paused: levels stand still, ages go on', () => {
    const paused = draw({rows: 9, ageMs: 9000, state: {pausedAtMs: READ_AT_MS + 1000}})
    expect(paused).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1              [overview] resources  health
      ▲ stale: data 9s old · 5 of 5 buckets · 12.5 read units/poll · every 2s
         ENTITY        RESOURCE LEVEL    LEFT/CAP↑     LIMIT  USED/S REFUSED/S   UNTIL
      ▸✖ user-debt     gpt-4    ◂▚▚░░░░░ -24.9k/100k   tpm         0         – ↑20m49s
       ✖ user-empty    search   ▏░░░░░░░    0.1/10     rps         4         –    ↓<1s
       ▲ team-research gpt-4    █░░░░░░░  13.3k/100k   tpm      2.5k         –     ↓8s
       ● hot-key       search   ████▉░░░  1.22k/2k     rps        10         –  ↑1m18s
      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s           1–4 of 6
      ‖ paused: levels of 08:00:01Z, 8s ago; p resumes
      "
    `)
  })
})

describe('any screen', () => {
  it('is never taller than the terminal, however small that is', () => {
    const states: Partial<ScreenState>[] = [
      {},
      {mode: 'help'},
      {mode: 'filter'},
      {tab: 'resources'},
      {tab: 'health'},
      {mode: 'detail', detailId: DETAIL.id},
    ]
    for (const state of states) {
      for (const rows of [7, 8, 40]) {
        for (const columns of [40, 250]) {
          draw({columns, rows, state, data: {detail: DETAIL, health: HEALTH}})
        }
      }
    }
  })

  it('shows the required size when there is no room', () => {
    expect(draw({columns: 39, rows: 8}).trim()).toBe('needs at least 40×8; q quits')
    expect(draw({columns: 80, rows: 1}).trim()).toBe('needs at least 40×8; q quits')
  })

  it('has only ASCII characters with --ascii', () => {
    const states: Partial<ScreenState>[] = [
      {mode: 'help'},
      {tab: 'resources'},
      {tab: 'health'},
      {mode: 'detail', detailId: DETAIL.id},
      {pausedAtMs: READ_AT_MS},
    ]
    for (const state of states) {
      const text = draw({columns: 120, rows: 30, ascii: true, state, data: {detail: DETAIL, health: HEALTH}})
      expect(text).toMatch(/^[\n\x20-\x7e]*$/)
    }
    expect(draw({columns: 30, rows: 2, ascii: true})).toMatch(/^[\n\x20-\x7e]*$/)
  })
})
