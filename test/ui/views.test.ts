import {describe, expect, it} from 'vitest'
import {ASCII_GLYPHS, BLOCK_GLYPHS} from '../../src/lib/ui/glyphs.js'
import {lengthOf} from '../../src/lib/ui/line.js'
import {Ranker} from '../../src/lib/ui/ranker.js'
import {levelsInstant, type Scene, setScene} from '../../src/lib/ui/scene.js'
import {screenLines} from '../../src/lib/ui/screen.js'
import {firstState, type ScreenState} from '../../src/lib/ui/screen-state.js'
import type {Knowledge, Reading} from '../../src/lib/watch/model.js'
import {READ_AT_MS} from '../watch/support.js'
import {knowledgeOf} from './fake-watch.js'
import {DETAIL, HEALTH, SAMPLE} from './fixtures.js'
import {easel} from './painted.js'

interface Look {
  readonly columns?: number
  readonly rows?: number
  readonly state?: Partial<ScreenState>
  readonly knowledge?: Partial<Knowledge>
  readonly readings?: readonly Reading[]
  readonly ascii?: boolean
  readonly ageMs?: number
  readonly top?: number
}

function sceneOf({
  columns = 80,
  rows = 12,
  state,
  knowledge,
  readings = SAMPLE,
  ascii,
  ageMs = 1000,
  top,
}: Look): Scene {
  const known = knowledgeOf(readings, knowledge)
  const screen = {...firstState({sort: 'left', reversed: false, filter: ''}), ...state}
  const nowMs = READ_AT_MS + ageMs
  const glyphs = ascii ? ASCII_GLYPHS : BLOCK_GLYPHS
  const settings = {stack: 'prod', namespace: 'default', where: 'eu-west-1', top, glyphs}
  const atMs = levelsInstant(screen, known, nowMs)
  const ranking = new Ranker(top).rankingAt(known.readings, atMs, screen.selection, screen.tab)
  return setScene({settings, size: {columns, rows}, state: screen, knowledge: known, ranking, nowMs})
}

/** The screen as text, one line per row of the terminal. */
function draw(look: Look = {}): string {
  const {columns = 80, rows = 12} = look
  const scene = sceneOf(look)
  const lines = screenLines(scene)
  expect(lines).toHaveLength(rows)
  for (const line of lines) expect(lengthOf(line)).toBeLessThanOrEqual(columns)
  return `\n${easel({columns, rows})(scene)}\n`
}

describe('the overview', () => {
  it('at 60 columns', () => {
    expect(draw({columns: 60})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1
      data 1s old · 12.5 read units/poll · 6 of 6 buckets · every…
         ENTITY      RESOURCE LEVEL    LEFT/CAP↑     LIMIT   UNTIL
      ▸✖ user-debt   gpt-4    ◂▚▚░░░░░ -24.9k/100k   tpm   ↑20m49s
       ✖ user-empty  search   ▏░░░░░░░    0.1/10     rps      ↓<1s
       ▲ team-resea… gpt-4    █░░░░░░░  13.3k/100k   tpm       ↓8s
       ● hot-key     search   ████▉░░░  1.22k/2k     rps    ↑1m18s
       ● user-fresh  a-resou… ████████     60/60     rpm      full
       ○ user-gone   gpt-4    ████████     1k/1k     tpm      full

      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14…
      ? help · q quit · / filter · s sort: left · enter drill in …
      "
    `)
  })

  it('at 80 columns', () => {
    expect(draw({columns: 80})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1              [overview] resources  health
      data 1s old · 12.5 read units/poll · 6 of 6 buckets · every 2s
         ENTITY          RESOURCE LEVEL    LEFT/CAP↑     LIMIT  USED/S  SHARDS   UNTIL
      ▸✖ user-debt       gpt-4    ◂▚▚░░░░░ -24.9k/100k   tpm         0       1 ↑20m49s
       ✖ user-empty      search   ▏░░░░░░░    0.1/10     rps         4       1    ↓<1s
       ▲ team-research   gpt-4    █░░░░░░░  13.3k/100k   tpm      2.5k       1     ↓8s
       ● hot-key         search   ████▉░░░  1.22k/2k     rps        10   2±60%  ↑1m18s
       ● user-fresh      a-resou… ████████     60/60     rpm         –       1    full
       ○ user-gone       gpt-4    ████████     1k/1k     tpm         –       1    full

      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s, tpm 2.5k/s · 6 s…
      ? help · q quit · / filter · s sort: left · enter drill in · tab resources · p …
      "
    `)
  })

  it('at 120 columns', () => {
    expect(draw({columns: 120})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1                                                      [overview] resources  health
      data 1s old · 12.5 read units/poll · 6 of 6 buckets · every 2s
         ENTITY             RESOURCE     LEVEL    LEFT/CAP↑     LIMIT  USED/S IN USE                    SHARDS  WRITES   UNTIL
      ▸✖ user-debt          gpt-4        ◂▚▚░░░░░ -24.9k/100k   tpm         0 ·····················▅██       1      0% ↑20m49s
       ✖ user-empty         search       ▏░░░░░░░    0.1/10     rps         4 ·····················███       1      0%    ↓<1s
       ▲ team-research      gpt-4        █░░░░░░░  13.3k/100k   tpm      2.5k ▇█·▂▃▄▅▅▆▇█▁▂▃▄·▅▆▇█▁▂▃▄       1      0%     ↓8s
       ● hot-key            search       ████▉░░░  1.22k/2k     rps        10 ·····················▂▃▄   2±60%   ▲ 86%  ↑1m18s
       ● user-fresh         a-resource-… ████████     60/60     rpm         – ························       1      0%    full
       ○ user-gone          gpt-4        ████████     1k/1k     tpm         – ························       1      0%    full

      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s, tpm 2.5k/s · 6 shards
      ? help · q quit · / filter · s sort: left · enter drill in · tab resources · p pause
      "
    `)
  })

  it('at 200 columns', () => {
    expect(draw({columns: 200})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1                                                                                                                                      [overview] resources  health
      data 1s old · 12.5 read units/poll · 6 of 6 buckets · every 2s
         ENTITY                               RESOURCE             LEVEL                 LEFT/CAP↑     LIMIT       USED/S IN USE                                                        SHARDS  WRITES   UNTIL
      ▸✖ user-debt                            gpt-4                ◂▚▚▚▚▚░░░░░░░░░░░░░░░ -24.9k/100k   tpm              0 ·························································▅██       1      0% ↑20m49s
       ✖ user-empty                           search               ▏░░░░░░░░░░░░░░░░░░░░    0.1/10     rps              4 ·························································███       1      0%    ↓<1s
       ▲ team-research                        gpt-4                ██▊░░░░░░░░░░░░░░░░░░  13.3k/100k   tpm           2.5k ····················▁▂▃▄▅·▆▇█▁▂▃▄▅▅▆▇█·▂▃▄▅▅▆▇█▁▂▃▄·▅▆▇█▁▂▃▄       1      0%     ↓8s
       ● hot-key                              search               ████████████▊░░░░░░░░  1.22k/2k     rps             10 ·························································▂▃▄   2±60%   ▲ 86%  ↑1m18s
       ● user-fresh                           a-resource-with-a-l… █████████████████████     60/60     rpm              – ····························································       1      0%    full
       ○ user-gone                            gpt-4                █████████████████████     1k/1k     tpm              – ····························································       1      0%    full

      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s, tpm 2.5k/s · 6 shards
      ? help · q quit · / filter · s sort: left · enter drill in · tab resources · p pause
      "
    `)
  })

  it('at 40×8, the smallest', () => {
    expect(draw({columns: 40, rows: 8})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1
      data 1s old · 12.5 read units/poll · 6 …
         ENTITY         RESOURCE LEFT/CAP↑
      ▸✖ user-debt      gpt-4    -24.9k/100k
       ✖ user-empty     search      0.1/10
       ▲ team-research  gpt-4     13.3k/100k
      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 i…
      ? help · q quit · / filter · s sort: le…
      "
    `)
  })

  it('with wide names', () => {
    expect(draw({columns: 80, rows: 8, state: {isWide: true}})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1              [overview] resources  health
      data 1s old · 12.5 read units/poll · 6 of 6 buckets · every 2s
         ENTITY                                 RESOURCE LEFT/CAP↑      USED/S   UNTIL
      ▸✖ user-debt                              gpt-4    -24.9k/100k         0 ↑20m49s
       ✖ user-empty                             search      0.1/10           4    ↓<1s
       ▲ team-research                          gpt-4     13.3k/100k      2.5k     ↓8s
      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s, tpm 2.5k/s · 6 s…
      ? help · q quit · / filter · s sort: left · enter drill in · tab resources · p …
      "
    `)
  })

  it('with --ascii has nothing else', () => {
    const text = draw({columns: 120, ascii: true})
    expect(text).toMatch(/^[\n\x20-\x7e]*$/)
    expect(text).toMatchInlineSnapshot(`
      "
      zael watch | prod/default | eu-west-1                                                      [overview] resources  health
      data 1s old | 12.5 read units/poll | 6 of 6 buckets | every 2s
         ENTITY             RESOURCE     LEVEL    LEFT/CAP^     LIMIT  USED/S IN USE                    SHARDS  WRITES   UNTIL
      >X user-debt          gpt-4        [<xx   ] -24.9k/100k   tpm         0                      =##       1      0% ^20m49s
       X user-empty         search       [_     ]    0.1/10     rps         4                      ###       1      0%    v<1s
       ! team-research      gpt-4        [+     ]  13.3k/100k   tpm      2.5k *# .:-==+*#_.:- =+*#_.:-       1      0%     v8s
       o hot-key            search       [###=  ]  1.22k/2k     rps        10                      .:-   2~60%   ! 86%  ^1m18s
       o user-fresh         a-resource-~ [######]     60/60     rpm         -                                1      0%    full
       - user-gone          gpt-4        [######]     1k/1k     tpm         -                                1      0%    full

      5 buckets | X 2 over | ! 1 near | < 1 in debt | used rps 14/s, tpm 2.5k/s | 6 shards
      ? help | q quit | / filter | s sort: left | enter drill in | tab resources | p pause
      "
    `)
  })

  it('filtered, while the filter is typed', () => {
    const selection = {sort: 'rate' as const, reversed: true, filter: 'search'}
    expect(draw({state: {mode: 'filter', selection}})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1              [overview] resources  health
      data 1s old · 12.5 read units/poll · 3 of 6 buckets · every 2s
         ENTITY          RESOURCE LEVEL    LEFT/CAP      LIMIT USED/S↑  SHARDS   UNTIL
      ▸✖ user-empty      search   ▏░░░░░░░    0.1/10     rps         4       1    ↓<1s
       ● hot-key         search   ████▉░░░  1.22k/2k     rps        10   2±60%  ↑1m18s
       ▲ team-research   gpt-4    █░░░░░░░  13.3k/100k   tpm      2.5k       1     ↓8s



      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s, tpm 2.5k/s · 6 s…
      /search_  3 buckets
      enter keep · esc drop · !text inverts · status:over
      "
    `)
  })

  it('with a filter that nothing matches', () => {
    const selection = {sort: 'left' as const, reversed: false, filter: 'nobody'}
    expect(draw({rows: 8, state: {selection}})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1              [overview] resources  health
      data 1s old · 12.5 read units/poll · 0 of 6 buckets · every 2s
         ENTITY          RESOURCE LEVEL    LEFT/CAP↑     LIMIT  USED/S  SHARDS   UNTIL
         Nothing matches "nobody"; esc clears the filter.

      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s, tpm 2.5k/s · 6 s…
      /nobody  0 buckets · esc clears it
      ? help · q quit · / filter · s sort: left · enter drill in · tab resources · p …
      "
    `)
  })

  it('of an empty table', () => {
    expect(draw({rows: 8, readings: []})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1              [overview] resources  health
      data 1s old · 12.5 read units/poll · 0 of 0 buckets · every 2s
         ENTITY          RESOURCE LEVEL    LEFT/CAP↑     LIMIT  USED/S  SHARDS   UNTIL
         No buckets: nothing was consumed yet, or all have expired.


      0 buckets · ✖ 0 over · ▲ 0 near · ◂ 0 in debt · 0 shards
      ? help · q quit · / filter · s sort: left · enter drill in · tab resources · p …
      "
    `)
  })

  it('with the first rows only', () => {
    expect(draw({rows: 9, top: 2})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1              [overview] resources  health
      data 1s old · 12.5 read units/poll · 2 of 6 buckets · every 2s
         ENTITY          RESOURCE LEVEL    LEFT/CAP↑     LIMIT  USED/S  SHARDS   UNTIL
      ▸✖ user-debt       gpt-4    ◂▚▚░░░░░ -24.9k/100k   tpm         0       1 ↑20m49s
       ✖ user-empty      search   ▏░░░░░░░    0.1/10     rps         4       1    ↓<1s


      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s, tpm 2.5k/s · 6 s…
      ? help · q quit · / filter · s sort: left · enter drill in · tab resources · p …
      "
    `)
  })

  it('that sampled, before the index was walked to its end', () => {
    const lastPoll = {number: 3, atMs: READ_AT_MS, durationMs: 9, readUnits: 49.5, calls: 3, bucketsRead: 80}
    expect(draw({rows: 8, knowledge: {known: {count: 1000, isComplete: false, unreadable: 0}, lastPoll}})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1              [overview] resources  health
      data 1s old · 49.5 read units/poll · 6 buckets, sampled 80 of 1,000+ · every 2s
         ENTITY          RESOURCE LEVEL    LEFT/CAP↑     LIMIT  USED/S  SHARDS   UNTIL
      ▸✖ user-debt       gpt-4    ◂▚▚░░░░░ -24.9k/100k   tpm         0       1 ↑20m49s
       ✖ user-empty      search   ▏░░░░░░░    0.1/10     rps         4       1    ↓<1s
       ▲ team-research   gpt-4    █░░░░░░░  13.3k/100k   tpm      2.5k       1     ↓8s
      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s, tpm 2.5k/s · 6 s…
      ? help · q quit · / filter · s sort: left · enter drill in · tab resources · p …
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
      return draw({rows: 8, ageMs: afterMs + 1000, knowledge: {lastPoll}})
    }
    expect(polled(6000)).toContain('▸✖ user-debt')
    expect(polled(6001)).toContain('▸✖~user-debt')
    expect(polled(6001)).toContain('data 1s old')
  })

  it('that is stale, and cannot be read', () => {
    const problem = {
      message: 'connect ECONNREFUSED 127.0.0.1:8000',
      isThrottled: false,
      sinceMs: READ_AT_MS + 2000,
      nextTryAtMs: READ_AT_MS + 12_000,
    }
    expect(draw({rows: 9, ageMs: 7000, knowledge: {problem}})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1              [overview] resources  health
      ▲ stale: data 7s old · 12.5 read units/poll · 6 of 6 buckets · every 2s
         ENTITY          RESOURCE LEVEL    LEFT/CAP↑     LIMIT  USED/S  SHARDS   UNTIL
      ▸✖ user-debt       gpt-4    ◂▚▚░░░░░ -24.3k/100k   tpm         0       1 ↑20m43s
       ✖ user-empty      search   ▌░░░░░░░    0.7/10     rps         4       1    ↓<1s
       ▲ team-research   gpt-4    █▌░░░░░░  19.3k/100k   tpm      2.5k       1    ↓12s
       ● hot-key         search   █████▎░░  1.34k/2k     rps        10   2±60%  ↑1m06s
      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s, tpm 2.5k/s · 6 s…
      ✖ cannot read for 5s, next try in 5s: connect ECONNREFUSED 127.0.0.1:8000
      "
    `)
  })

  it('that is throttled', () => {
    const problem = {message: 'throughput exceeded', isThrottled: true, sinceMs: READ_AT_MS, nextTryAtMs: READ_AT_MS}
    expect(draw({rows: 8, knowledge: {problem}})).toContain('✖ throttled for 1s, trying again: throughput exceeded')
  })

  it('paused: levels stand still, ages go on', () => {
    const paused = draw({rows: 9, ageMs: 9000, state: {pausedAtMs: READ_AT_MS + 1000}})
    expect(paused).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1              [overview] resources  health
      ▲ stale: data 9s old · 12.5 read units/poll · 6 of 6 buckets · every 2s
         ENTITY          RESOURCE LEVEL    LEFT/CAP↑     LIMIT  USED/S  SHARDS   UNTIL
      ▸✖ user-debt       gpt-4    ◂▚▚░░░░░ -24.9k/100k   tpm         0       1 ↑20m49s
       ✖ user-empty      search   ▏░░░░░░░    0.1/10     rps         4       1    ↓<1s
       ▲ team-research   gpt-4    █░░░░░░░  13.3k/100k   tpm      2.5k       1     ↓8s
       ● hot-key         search   ████▉░░░  1.22k/2k     rps        10   2±60%  ↑1m18s
      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s, tpm 2.5k/s · 6 s…
      ‖ paused: levels of 08:00:01Z, 8s ago; p goes on
      "
    `)
  })
})

describe('other panels', () => {
  it('detail', () => {
    const state = {mode: 'detail' as const, detailId: DETAIL.id}
    expect(draw({columns: 100, rows: 30, state, knowledge: {detail: DETAIL}})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1                                  [overview] resources  health
      data 1s old · 12.5 read units/poll · 6 of 6 buckets · every 2s
      ▲ team-research · gpt-4  1 shard, charged to org-1 too, read 1s ago  ↓8s

      Limits
        rpm          ████████████████▊░░░░░░░░░░░ 36 of 60  refills 6/s
        tpm          ███▋░░░░░░░░░░░░░░░░░░░░░░░░ 13,345 of 100,000  refills 1,000/s, used 2.5k/s
        in use, last polls  ····················▁▂▃▄▅·▆▇█▁▂▃▄▅▅▆▇█·▂▃▄▅▅▆▇█▁▂▃▄·▅▆▇█▁▂▃▄

      Shards
          0 rpm ██████░░░░ 36/60  tpm █▎░░░░░░░░ 13.3k/100k  writes 0%

      Parent org-1
        tpm          ███████████▏░░░░░░░░░░░░░░░░ 400,001 of 1,000,000

      Limits in force, and where they come from
        rpm 60/min  system
        tpm 100000/min  entity

      Usage
        2027-01-15T08:00:00Z  tpm 120,345, rpm 41, 41 requests
        2027-01-15T07:00:00Z  tpm 98,000

      Changes
        2027-01-14T09:30:00Z  limits_set by alice [2J
      ▲ usage: the request was throttled


      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s, tpm 2.5k/s · 6 shards
      esc back · ? help · r refresh · q quit
      "
    `)
  })

  it('detail of shards, while the rest is read', () => {
    const state = {mode: 'detail' as const, detailId: 'hot-key#search'}
    expect(draw({columns: 80, rows: 16, state})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1              [overview] resources  health
      data 1s old · 12.5 read units/poll · 6 of 6 buckets · every 2s
      ● hot-key · search  2 shards, read 1s ago  ↑1m18s

      Limits
        rps          ████▉░░░ 1,220 of 2,000  refills 20/s, used 10/s
        in use, last polls  ·····················································▂▃▄

      Shards
          0 rps █████████░ 910/1k  writes 0%
          1 rps ███░░░░░░░ 310/1k  writes 0%

      Reading the rest.

      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s, tpm 2.5k/s · 6 s…
      esc back · ? help · r refresh · q quit
      "
    `)
  })

  it('detail in debt', () => {
    const state = {mode: 'detail' as const, detailId: 'user-debt#gpt-4'}
    expect(draw({columns: 80, rows: 12, state})).toContain('◂ 24,900 in debt')
  })

  it('detail of what is gone', () => {
    const state = {mode: 'detail' as const, detailId: 'nobody#nothing'}
    expect(draw({rows: 8, state})).toContain('not there any more; esc goes back')
  })

  it('detail, scrolled past its end', () => {
    const state = {mode: 'detail' as const, detailId: DETAIL.id, detailTop: 500}
    expect(draw({rows: 10, columns: 80, state, knowledge: {detail: DETAIL}})).toContain(
      'usage: the request was throttled',
    )
  })

  it('resources', () => {
    expect(draw({columns: 120, state: {tab: 'resources'}})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1                                                       overview [resources] health
      data 1s old · 12.5 read units/poll · 6 of 6 buckets · every 2s
        RESOURCE           ENTITIES LEVEL      LEFT/CAP      LIMIT   USED/S  OVER  NEAR  MOST USED BY
      ▸ a-resource-with-a…        1 ██████████     60/60     rpm          –     0     0
        gpt-4                     2 ◂▚░░░░░░░░ -11.6k/200k   tpm       2.5k    ✖1    ▲1  team-research 2.5k/s (tpm)
        search                    2 ██████░░░░  1.22k/2.01k  rps         14    ✖1     0  hot-key 10/s, user-empty 4/s (rps)




      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s, tpm 2.5k/s · 6 shards
      ? help · q quit · enter drill in · tab health · p pause
      "
    `)
  })

  it('health', () => {
    expect(draw({state: {tab: 'health'}, knowledge: {health: HEALTH}})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1               overview  resources [health]
      data 1s old · 12.5 read units/poll · 6 of 6 buckets · every 2s
      ▸ ● stream               12 records behind, the oldest 2 s old
        ▲ aggregator           3 records refused in the last minute
        ✖ table                14 throttled writes in the last five minutes
        ○ alarms               CloudWatch is not asked for a local stack




      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s, tpm 2.5k/s · 6 s…
      ? help · q quit · tab overview · p pause
      "
    `)
  })

  it('health before it is known', () => {
    expect(draw({rows: 8, state: {tab: 'health'}})).toContain('Asking.')
  })

  it('help shows only keys that are valid here', () => {
    expect(draw({rows: 24, state: {mode: 'help'}})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1              [overview] resources  health
      data 1s old · 12.5 read units/poll · 6 of 6 buckets · every 2s
      Keys here
      Ctrl-C quit                             / filter as you type
      q quit                                  s S next sort, reverse
      ? this help                             1-7 sort by column; again: reverse
      esc back, or clear the filter           w wide names
      ↑ ↓ j k move                            tab next panel
      g G first, last                         p space pause
      PgUp PgDn a page                        r refresh now
      Ctrl-u Ctrl-d half a page               + - poll less often, more often
      enter drill in                          c tell the name and its command

      ● ok  ▲ below a fifth, or empty within a minute  ✖ refusing  ○ gone
      ◂ in debt  ▸ more than the capacity  ↓ empty in  ↑ full in  4±30% shards and ho…
      ~ not read for three polls: sampled, and not its turn yet






      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s, tpm 2.5k/s · 6 s…
      esc back · q quit
      "
    `)
    const inDetail = draw({rows: 24, state: {mode: 'help', helpOver: 'detail', detailId: DETAIL.id}})
    expect(inDetail).not.toMatch(/sort|filter as you type|next panel/)
    expect(inDetail).toContain('refresh now')
  })
})

describe('any screen', () => {
  it('never is taller than the terminal, however small that is', () => {
    const states: Partial<ScreenState>[] = [
      {},
      {mode: 'help'},
      {mode: 'filter'},
      {tab: 'resources'},
      {tab: 'health'},
      {mode: 'detail', detailId: DETAIL.id},
    ]
    for (const state of states) {
      for (const rows of [1, 7, 8, 40]) {
        for (const columns of [20, 40, 250]) {
          draw({columns, rows, state, knowledge: {detail: DETAIL, health: HEALTH}})
        }
      }
    }
  })

  it('says what it needs when there is no room', () => {
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
      const text = draw({columns: 120, rows: 30, ascii: true, state, knowledge: {detail: DETAIL, health: HEALTH}})
      expect(text).toMatch(/^[\n\x20-\x7e]*$/)
    }
    expect(draw({columns: 30, rows: 2, ascii: true})).toMatch(/^[\n\x20-\x7e]*$/)
  })
})
