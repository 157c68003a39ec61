import {beforeAll, expect, it} from 'vitest'
import {parseLimit} from '../../src/lib/core/syntax/limit-text.js'
import {Repository} from '../../src/lib/repository/repository.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {schemaProblems} from './schemas.js'
import {tableCli} from './table-cli.js'

const HOUR_MS = 3_600_000

describeOnEngine('limits with an end', () => {
  const table = useTable()
  const cli = tableCli(table)
  const scope = {level: 'entity', entity: 'cust-08', resource: 'batch'} as const
  const batch = {level: 'resource', resource: 'batch'} as const
  const words = '--entity cust-08 --resource batch'

  beforeAll(async () => {
    const repository = new Repository({stack: table.name, transport: table.transport})
    await repository.namespaces.register('default')
    await (await repository.namespace()).setLimits(batch, [parseLimit('rpm=60/min'), parseLimit('tpd=200k/day')])
  })

  /** Times in words, all the same. */
  const shown = async (command: string) =>
    (await cli.show(command, 200))
      .replaceAll(/\d{4}-\d\d-\d\d \d\d:\d\d UTC/g, '2026-11-17 14:37 UTC')
      .replaceAll(` ${cli.flags.join(' ')}`, '')

  it('are set for a time, shown everywhere with their end, and ended before', async () => {
    const command = `limits set ${words} tpd=400k/day --for 24h`
    expect(await shown(`${command} --dry-run`)).toContain(
      'tpd       200k/day → 400k/day until 2026-11-17 14:37 UTC, then 200k/day',
    )
    expect((await cli.tell('limits boosts')).boosts).toEqual([])
    expect(await shown('limits boosts')).toMatch(/^No limits end by themselves/)

    expect(await shown(command)).toMatchInlineSnapshot(`
      "Limits of entity cust-08 for batch
        rpm           60/min, unchanged, copied from resource batch
        tpd           200k/day → 400k/day until 2026-11-17 14:37 UTC, then 200k/day
        hides         resource batch: rpm=60/min tpd=200k/day
        new           entity cust-08
        live buckets  none affected

      Ends by itself at 2026-11-17 14:37 UTC (rounded up to the minute): from then on what applied before applies again, and entity cust-08 for batch has no limits of its own. To end it before: zael limits unset --boost --entity cust-08 --resource batch
      "
    `)
    const {limits} = await cli.tell(`limits get ${words}`)
    expect(limits[1]).toMatchObject({
      text: 'tpd=200k/day',
      capacity: 200_000,
      boost: {text: 'tpd=400k/day', capacity: 400_000, ended: false},
    })
    expect(limits[1]).not.toHaveProperty('schedule')
    const until = Date.parse(limits[1].boost.until)
    expect(until % 60_000).toBe(0)

    expect(await shown(`limits get ${words}`)).toMatchInlineSnapshot(`
      "Limits of entity cust-08 for batch
        rpm  60/min
        tpd  400k/day until 2026-11-17 14:37 UTC, then 200k/day
      "
    `)
    expect(await shown('limits list')).toMatchInlineSnapshot(`
      "LEVEL     ENTITY   RESOURCE  LIMITS
      resource  -        batch     rpm=60/min tpd=200k/day
      entity    cust-08  batch     rpm=60/min tpd=200k/day (400k/day until 2026-11-17 14:37 UTC)
      "
    `)
    expect(await shown('limits resolve cust-08 batch')).toMatchInlineSnapshot(`
      "Limits of cust-08 for batch
        rpm  60/min
        tpd  400k/day until 2026-11-17 14:37 UTC, then 200k/day

      LEVEL           ENTITY   RESOURCE  LIMITS
      entity          cust-08  batch     rpm=60/min tpd=200k/day (400k/day until 2026-11-17 14:37 UTC)  applies
      entity_default  cust-08  -         -                                                              not set
      resource        -        batch     rpm=60/min tpd=200k/day                                        hidden by entity
      system          -        -         -                                                              not set

      cust-08 has no record. Limits apply anyway; check the spelling if you expected one.
      "
    `)
    expect(await shown('limits boosts')).toContain('cust-08')
    expect((await cli.tell('limits boosts')).boosts).toMatchObject([
      {scope: {level: 'entity', entity: 'cust-08'}, copied: true, limit: {boost: {text: 'tpd=400k/day'}}},
    ])
    expect(await shown('why cust-08 batch tpd=1')).toContain(
      'entity cust-08 for batch: 400k/day until 2026-11-17 14:37 UTC, then 200k/day',
    )
    const why = JSON.parse((await cli.run('why cust-08 batch tpd=500000 --json')).stdout)
    expect(schemaProblems('why', why)).toEqual([])
    expect(why.limits[0].boost.text).toBe('tpd=400k/day')
    expect(why.limits[0].remedies[0].command).toMatch(
      /^zael limits set --entity cust-08 --resource batch tpd=400k\/day:500k --until \d{4}-\d\d-\d\dT\d\d:\d\dZ/,
    )
    expect(await shown('audit list cust-08')).toContain('tpd=200k/day (tpd=400k/day until 2026-')
    expect(await shown('limits export')).toMatchInlineSnapshot(`
      "namespace: default
      resources:
        batch:
          limits:
            rpm: 60/min
            tpd: 200k/day
      # Set until an end, and not part of this manifest: \`zael limits apply\` leaves them alone.
      #   entity "cust-08" and resource "batch": tpd=400k/day until 2026-11-17 14:37 UTC
      "
    `)
    expect(await shown(`entity show cust-08`)).toContain('tpd=200k/day (400k/day until 2026-11-17 14:37 UTC)')

    expect(await shown(`limits unset --boost ${words}`)).toMatchInlineSnapshot(`
      "Limits of entity cust-08 for batch
        rpm           60/min, unchanged
        tpd           400k/day until 2026-11-17 14:37 UTC, then 200k/day → 200k/day
        uncovers      resource batch: rpm=60/min tpd=200k/day
        live buckets  none affected
      "
    `)
    expect((await cli.tell('limits boosts')).boosts).toEqual([])
    expect(await cli.fail(`limits unset --boost ${words}`)).toMatchObject({code: 3, error: {code: 'boost.missing'}})
  })

  it.each([
    [`limits set ${words} tpd=400k/day --for 24h --until 2026-12-01`, 'command.usage'],
    [`limits set ${words} tpd=400k/day --for 24h --only`, 'command.usage'],
    [`limits set --system --on-unavailable allow --for 1h`, 'command.usage'],
    [`limits set ${words} tpd=400k/day --for soon`, 'duration.syntax'],
    [`limits set ${words} tpd=400k/day --until 24h`, 'time.syntax'],
    [`limits set ${words} tpd=400k/day --until 2020-01-01`, 'until.past'],
    [`limits set ${words} tpd=400k/day --for 301d`, 'until.far'],
    [`limits set ${words} tpd=400k/day --until 2031-03-30T02:30@Europe/Berlin`, 'time.ambiguous'],
    [`limits set ${words} tpd=400k/day --until 2031-10-26T02:30@Europe/Berlin`, 'time.ambiguous'],
    [`limits set ${words} tpd=400k/day --until 2031-10-26T02:30Z@Europe/Berlin`, 'time.syntax'],
    [`limits set ${words} tpd=400k/day --until 2031-10-26@Europe/Berlni`, 'zone.unknown'],
    [`limits set ${words} tph=400k/hour --for 1h`, 'until.missing'],
    [`limits set ${words} tpd=400k/day@UTC --for 1h`, 'until.kind'],
    [`limits unset --boost --all ${words}`, 'command.usage'],
  ])('%s is bad input (%s)', async (command, expected) => {
    const {code, error} = await cli.fail(command)
    expect({code, error: error.code}).toEqual({code: 2, error: expected})
  })

  it('are shown as ended until they are tidied up', async () => {
    const past = Date.now() - 30 * HOUR_MS
    const repository = new Repository({stack: table.name, transport: table.transport, clock: () => past})
    const namespace = await repository.namespace()
    await namespace.setLimits(scope, [parseLimit('tpd=400k/day')], {until: new Date(past + HOUR_MS)})
    expect(await shown(`limits get ${words}`)).toContain('200k/day (400k/day until 2026-11-17 14:37 UTC, ended)')
    expect((await cli.tell('limits boosts')).boosts[0].limit.boost.ended).toBe(true)
    expect(await shown('limits boosts')).toContain('ended')
    await cli.tell(`limits set ${words} rpm=5/min`)
    expect((await cli.tell(`limits get ${words}`)).limits.map(({text}: {text: string}) => text)).toEqual([
      'rpm=5/min',
      'tpd=200k/day',
    ])
    expect((await cli.tell('limits boosts')).boosts).toEqual([])
    await namespace.deleteLimits(scope)
  })

  it('say from when a quota has its allowance, and how to have it now', async () => {
    await cli.tell('limits set --resource daily rpd=10k/day@UTC')
    const lines = await shown('limits set --entity e1 --resource daily rpd=20k/day@UTC --for 24h')
    expect(lines).toContain(
      'The allowance of rpd counts from the next reset. To add the difference until then: zael bucket top-up e1 daily rpd=10k',
    )
  })
})
