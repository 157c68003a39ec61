import {describe, expect, it} from 'vitest'
import {draw} from './draw.js'
import {DETAIL, HEALTH} from './fixtures.js'

describe('other panels', () => {
  it('detail', () => {
    const state = {mode: 'detail' as const, detailId: DETAIL.id}
    expect(draw({columns: 100, rows: 30, state, data: {detail: DETAIL}})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1                                  [overview] resources  health
      data 1s old · 5 of 5 buckets · 12.5 read units/poll · every 2s
      ▲ team-research · gpt-4  1 shard, also charged to org-1, read 1s ago  ↓8s

      Limits
        rpm          ████████████████▊░░░░░░░░░░░ 36 of 60  refills 6/s
        tpm          ███▋░░░░░░░░░░░░░░░░░░░░░░░░ 13,345 of 100,000  refills 1,000/s, used 2.5k/s
        in use, last polls  ····················▁▂▃▄▅·▆▇█▁▂▃▄▅▅▆▇█·▂▃▄▅▅▆▇█▁▂▃▄·▅▆▇█▁▂▃▄

      Shards
          0 tpm █▎░░░░░░░░ 13.3k/100k  rpm ██████░░░░ 36/60  writes 0%

      Parent org-1
        tpm          ███████████▏░░░░░░░░░░░░░░░░ 400,001 of 1,000,000

      Limits in force  read 1s ago
        rpm 60/min  system
        tpm 100000/min  entity

      Usage  read 1s ago
        rpm          ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁██  41 in 24 h, at most 41/h
        tpm          ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▆▆██  218k in 24 h, at most 120k/h
        refused      ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁██  7 in 24 h, at most 7/h
        2027-01-15T08:00:00Z  tpm 120,345  rpm 41  41 requests  7 refused
        2027-01-15T07:00:00Z  tpm 98,000

      Changes  read 1s ago
        2027-01-14T09:30:00Z  limits_set by alice\\x1b[2J
      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s · used tpm 2.5k/s · 6 shards
      esc back · q quit · y why · ? help · r refresh
      "
    `)
  })

  it('detail of shards, while the rest is loading', () => {
    const state = {mode: 'detail' as const, detailId: 'hot-key#search'}
    expect(draw({columns: 80, rows: 16, state})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1              [overview] resources  health
      data 1s old · 5 of 5 buckets · 12.5 read units/poll · every 2s
      ● hot-key · search  2 shards, read 1s ago  ↑1m18s

      Limits
        rps          ████▉░░░ 1,220 of 2,000  refills 20/s, used 10/s
        in use, last polls  ·····················································▂▃▄

      Shards
          0 rps █████████░ 910/1k  writes 86%
          1 rps ███░░░░░░░ 310/1k  writes 14%

      Loading details.

      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s · used tpm 2.5k/s
      esc back · q quit · y why · ? help · r refresh
      "
    `)
  })

  it('detail in debt', () => {
    const state = {mode: 'detail' as const, detailId: 'user-debt#gpt-4'}
    expect(draw({columns: 80, rows: 12, state})).toContain('◂ 24,900 in debt')
  })

  it('detail of a deleted bucket', () => {
    const state = {mode: 'detail' as const, detailId: 'deleted#nothing'}
    expect(draw({rows: 8, state})).toContain('no longer exists. Esc goes back')
  })

  it('detail, scrolled past its end', () => {
    const state = {mode: 'detail' as const, detailId: DETAIL.id, detailTop: 500}
    expect(draw({rows: 10, columns: 80, state, data: {detail: DETAIL}})).toContain('usage: the request was throttled')
  })

  it('resources', () => {
    expect(draw({columns: 120, state: {tab: 'resources'}})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1                                                       overview [resources] health
      data 1s old · 5 of 5 buckets · 12.5 read units/poll · every 2s
        RESOURCE       ENTITIES LEVEL    LEFT/CAP      LIMIT  USED/S REFUSED/S   OVER   NEAR MOST USED BY
      ▸ a-resource-wi…        1 ████████     60/60     rpm         –         0      0      0
        gpt-4                 2 ◂▚░░░░░░ -11.6k/200k   tpm      2.5k         0     ✖1     ▲1 team-research 2.5k/s (tpm)
        search                2 ████▊░░░  1.22k/2.01k  rps        14         0     ✖1      0 hot-key 10/s (rps)




      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s · used tpm 2.5k/s · 6 shards
      ? help · q quit · enter open · tab health · p pause
      "
    `)
  })

  it('health', () => {
    expect(draw({state: {tab: 'health'}, data: {health: HEALTH}})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1               overview  resources [health]
      data 1s old · 5 of 5 buckets · 12.5 read units/poll · every 2s
      ▸ ● stream               12 records behind, the oldest 2 s old
        ▲ aggregator           3 records refused in the last minute
        ✖ table                14 throttled writes in the last five minutes
        ○ alarms               CloudWatch is not asked for a local stack




      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s · used tpm 2.5k/s
      ? help · q quit · tab overview · p pause
      "
    `)
  })

  it('health before it is loaded', () => {
    expect(draw({rows: 8, state: {tab: 'health'}})).toContain('Loading.')
  })

  it('help, with only the keys that are valid here', () => {
    expect(draw({rows: 24, state: {mode: 'help'}})).toMatchInlineSnapshot(`
      "
      zael watch · prod/default · eu-west-1              [overview] resources  health
      data 1s old · 5 of 5 buckets · 12.5 read units/poll · every 2s
      Keys  lines 1-19 of 20; j k scroll
      Ctrl-C quit                             y explain refusals
      Ctrl-Z suspend; fg resumes              / filter as you type
      q quit                                  s S next sort, reverse
      ? this help                             1-8 sort by column; again: reverse
      esc back, or clear the filter           w wide names
      ↑ ↓ j k move                            tab next panel
      g G first, last                         p space pause
      PgUp PgDn a page                        r refresh now
      Ctrl-u Ctrl-d half a page               + - poll more often, less often
      enter open                              c show a command for this bucket

      Filters:  gpt part of a name  !gpt excludes it  status:over
      resource:gpt-4 or entity:ada exact match

      ● ok  ▲ below 20 %, or empty within a minute  ✖ refusing
      ↑ parent its parent refuses  ↑ provider a shared scope refuses  ◆ soft and empty
      ⊘ disabled  ○ gone
      ◂ in debt  ▸ above its capacity  ↓ empty in  ↑ full in
      4±30% shards and their imbalance
      5 buckets · ✖ 2 over · ▲ 1 near · ◂ 1 in debt · used rps 14/s · used tpm 2.5k/s
      esc back · q quit
      "
    `)
    const inDetail = draw({rows: 24, state: {mode: 'help', helpOver: 'detail', detailId: DETAIL.id}})
    expect(inDetail).not.toMatch(/sort|filter as you type|next panel/)
    expect(inDetail).toContain('refresh now')
  })
})
