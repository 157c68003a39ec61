import {beforeAll, expect, it} from 'vitest'
import {parseLimit} from '../../src/lib/core/limits/limit-text.js'
import {Repository} from '../../src/lib/repository/repository.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {schemaProblems} from './schemas.js'
import {tableCli} from './table-cli.js'

const HOUR_MS = 3_600_000

describeOnEngine('temporary limits', () => {
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

  it('are set with an expiry, shown with it everywhere, and ended early', async () => {
    const command = `limits set ${words} tpd=400k/day --for 24h`
    expect(await shown(`${command} --dry-run`)).toContain(
      'tpd      200k/day → 400k/day until 2026-11-17 14:37 UTC, then 200k/day (resource level)',
    )
    expect((await cli.tell('limits boosts')).boosts).toEqual([])
    expect(await shown('limits boosts')).toMatch(/^No temporary limits/)

    expect(await shown(command)).toMatchInlineSnapshot(`
      "Limits of entity cust-08 for batch
        rpm           60/min, unchanged, copied from resource batch
        tpd           200k/day → 400k/day until 2026-11-17 14:37 UTC, then 200k/day (resource level)
        hides         resource batch: rpm=60/min tpd=200k/day
        new           entity cust-08
        live buckets  none affected

      Expires at 2026-11-17 14:37 UTC (rounded up to the minute); then the limits of resource batch apply. To end it now: zael limits unset --boost --entity cust-08 --resource batch
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
        tpd  400k/day until 2026-11-17 14:37 UTC, then the inherited limit
      "
    `)
    expect(await shown('limits list')).toMatchInlineSnapshot(`
      "LEVEL     ENTITY   RESOURCE  LIMITS
      resource  -        batch     rpm=60/min tpd=200k/day
      entity    cust-08  batch     rpm=60/min tpd=200k/day (400k/day until 2026-11-17 14:37 UTC, then the inherited limit)
      "
    `)
    expect(await shown('limits resolve cust-08 batch')).toMatchInlineSnapshot(`
      "Limits of cust-08 for batch
        rpm  60/min
        tpd  400k/day until 2026-11-17 14:37 UTC, then 200k/day (resource level)

      SET FOR                                      LIMITS
      entity cust-08 for batch           applies   rpm=60/min tpd=200k/day (400k/day until 2026-11-17 14:37 UTC, then the inherited limit)
      entity cust-08 for every resource  not set   -
      resource batch                     not used  rpm=60/min tpd=200k/day
      the system                         not set   -
      "
    `)
    expect(await shown('limits boosts')).toMatch(/cust-08 +batch .* UTC +200k\/day \(resource level\)/)
    expect((await cli.tell('limits boosts')).boosts).toMatchObject([
      {scope: {level: 'entity', entity: 'cust-08'}, copied: true, limit: {boost: {text: 'tpd=400k/day'}}},
    ])
    expect(await shown('why cust-08 batch tpd=1')).toContain(
      'entity cust-08 for batch: 400k/day until 2026-11-17 14:37 UTC, then 200k/day (resource level)',
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
      # Temporary limits, not part of this manifest; \`zael limits apply\` keeps them.
      #   entity "cust-08" and resource "batch": tpd=400k/day until 2026-11-17 14:37 UTC
      "
    `)
    expect(await shown(`entity show cust-08`)).toContain(
      'tpd=200k/day (400k/day until 2026-11-17 14:37 UTC, then the inherited limit)',
    )

    expect(await shown(`limits unset --boost ${words}`)).toMatchInlineSnapshot(`
      "Limits of entity cust-08 for batch
        rpm           60/min, unchanged
        tpd           400k/day until 2026-11-17 14:37 UTC, then 200k/day (resource level) → 200k/day
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
  ])('refuse bad input: %s (%s)', async (command, expected) => {
    const {code, error} = await cli.fail(command)
    expect({code, error: error.code}).toEqual({code: 2, error: expected})
  })

  it('are shown as expired until they are tidied up', async () => {
    const past = Date.now() - 30 * HOUR_MS
    const repository = new Repository({stack: table.name, transport: table.transport, clock: () => past})
    const namespace = await repository.namespace()
    await namespace.setLimits(scope, [parseLimit('tpd=400k/day')], {until: new Date(past + HOUR_MS)})
    await namespace.setLimits(batch, [parseLimit('tpd=500k/day')], {until: new Date(past + HOUR_MS)})
    expect(await shown('limits get --resource batch')).toContain(
      '200k/day (500k/day until 2026-11-17 14:37 UTC, ended)',
    )
    expect((await cli.tell('limits boosts')).boosts).toMatchObject(
      [scope, batch].map(() => ({limit: {boost: {ended: true}}})),
    )
    expect(await shown('limits boosts')).toMatch(
      /cust-08 +batch +tpd +ended +2026-11-17 14:37 UTC +200k\/day \(resource level\)/,
    )
    await cli.tell('limits unset --boost --resource batch')
    expect((await cli.tell('limits boosts')).boosts).toHaveLength(1)
    await cli.tell(`limits unset --boost ${words}`)
    expect((await cli.tell('limits boosts')).boosts).toEqual([])
  })

  it('leave nothing of their copy after expiry, tidied up or not', async () => {
    const past = Date.now() - HOUR_MS
    const repository = new Repository({stack: table.name, transport: table.transport, clock: () => past})
    await (await repository.namespace()).setLimits(scope, [parseLimit('tpd=400k/day')], {
      until: new Date(Date.now() - 60_000),
    })
    expect(await cli.fail(`limits get ${words}`)).toMatchObject({code: 3, error: {code: 'limits.missing'}})
    for (const command of ['limits list', 'limits export']) expect(await shown(command)).not.toContain('400k')
    expect(await shown('limits resolve cust-08 batch')).toMatch(/^resource batch +applies +rpm=60\/min tpd=200k\/day$/m)
    expect(JSON.parse((await cli.run('why cust-08 batch tpd=300000 --json')).stdout).limits[0]).toMatchObject({
      text: 'tpd=200k/day',
      setFor: {level: 'resource'},
      remedies: [{command: expect.stringMatching(/ tpd=200k\/day:300k --stack/)}],
    })
    const lines = await shown(`limits set ${words} rpm=5/min --dry-run`)
    expect(lines).toContain('tpd      200k/day, unchanged, copied from resource batch')
    expect(lines).toContain('tpd is a copy and does not follow later changes of resource batch.')
    await cli.tell(`limits unset --boost ${words}`)
  })

  it('ask before limits copied for them become permanent', async () => {
    await cli.tell(`limits set ${words} tpd=400k/day --for 24h`)
    expect(await shown(`limits set ${words} tpd=300k/day --dry-run`)).toContain(
      'rpm is a copy and does not follow later changes of resource batch. To remove all limits of entity cust-08 for batch and follow it again: zael limits unset --all --entity cust-08 --resource batch',
    )
    const kept =
      /^The limits of entity cust-08 for batch are a temporary copy until .* UTC\. This makes rpm=60\/min permanent\./
    const set = await cli.fail(`limits set ${words} tpd=300k/day`)
    expect(set).toMatchObject({code: 2, error: {code: 'confirm.needed', message: expect.stringMatching(kept)}})
    expect(set.error.hint).toMatch(
      /To keep the copy temporary: zael limits set --entity cust-08 --resource batch tpd=300k\/day --until \S+Z /,
    )
    const unset = await cli.fail(`limits unset tpd ${words}`)
    expect(unset).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
    expect(unset.error.message).toContain('This makes rpm=60/min permanent')
    expect(unset.error.hint).toContain(`To end only its boost: zael limits unset --boost tpd ${words} `)
    expect((await cli.tell('limits boosts')).boosts).toMatchObject([{copied: true, limit: {boost: {endsCopy: true}}}])
    expect(await cli.fail(`limits unset nothing ${words}`)).toMatchObject({code: 3, error: {code: 'limits.missing'}})
    expect(await shown(`limits unset tpd ${words} --yes`)).toContain(
      'rpm is a copy and does not follow later changes of resource batch',
    )
    await cli.tell(`limits unset --all ${words} --yes`)
  })

  it('suggest the right scope or flag after a mistake', async () => {
    await cli.tell(`limits set ${words} tpd=400k/day --for 24h`)
    const where = cli.flags.join(' ')
    expect((await cli.fail(`limits set ${words} tpd=200k/day --for 24h`)).error).toMatchObject({
      code: 'until.same',
      hint: `To end its boost: zael limits unset --boost tpd --entity cust-08 --resource batch ${where}`,
    })
    expect((await cli.fail(`limits set ${words} rpm=60/min --for 24h`)).error).toMatchObject({
      code: 'until.same',
      hint: 'Give different amounts to apply until the end.',
    })
    expect((await cli.fail(`limits set ${words} tpd=300k/day --until 24h`)).error).toMatchObject({
      message: '--until: "24h" is a duration, not a time.',
      hint: 'To expire the values after this duration: --for 24h',
    })
    expect((await cli.fail(`limits set ${words} tpd=300k/day --until tomorrow`)).error.hint).toMatch(
      /^Write a date such as/,
    )
    await cli.tell(`limits unset --boost ${words}`)
  })

  it('ask before their expiry removes a limit from live buckets', async () => {
    const repository = new Repository({stack: table.name, transport: table.transport})
    const namespace = await repository.namespace()
    const video = {level: 'resource', resource: 'video'} as const
    await namespace.setLimits(video, [parseLimit('rpm=60/min'), parseLimit('tpd=200k/day')])
    const boosted = '--entity cust-09 --resource video'
    await cli.tell(`limits set ${boosted} rpm=90/min --for 24h`)
    await cli.run('acquire cust-09 video rpm=1 tpd=1')
    await namespace.unsetLimit(video, 'tpd')
    const {code, error} = await cli.fail(`limits unset --boost ${boosted}`)
    expect({code, error}).toMatchObject({
      code: 2,
      error: {
        code: 'confirm.needed',
        message: 'Changing entity cust-09 for video removes limits: tpd from 1 live bucket. This needs confirmation.',
      },
    })
    expect((await cli.tell('limits boosts')).boosts).toHaveLength(1)
    expect(await cli.tell(`limits unset --boost ${boosted} --yes`)).toMatchObject({lost: {limits: ['tpd'], buckets: 1}})
    expect((await cli.tell('limits boosts')).boosts).toEqual([])
  })

  it('are refused for a quota, with the command that adds tokens until its reset', async () => {
    await cli.tell("limits set --resource monthly 'usd=$500/month@UTC'")
    const {code, error} = await cli.fail("limits set --entity e1 --resource monthly 'usd=$700' --for 1h")
    expect({code, error}).toMatchObject({
      code: 2,
      error: {
        code: 'until.quota',
        hint: expect.stringContaining(
          "To add the difference at once, until the reset: zael bucket top-up e1 monthly 'usd=$200'",
        ),
      },
    })
    expect(await cli.fail("limits set --entity e1 --resource monthly 'usd=$300' --for 1h")).toMatchObject({
      error: {code: 'until.quota', hint: 'Set it without --for or --until, and set it back later.'},
    })
  })
})
