import {beforeAll, beforeEach, expect, it} from 'vitest'
import {DEFAULT_RESOURCE} from '../../src/lib/core/names.js'
import {type NamespaceRepository, Repository} from '../../src/lib/repository/repository.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {tableCli} from './table-cli.js'

const LIMIT = {name: 'rpm', capacity: 100, refillAmount: 100, refillPeriodSeconds: 60}

const NEW_NAMESPACE = 'Did you mean "default"? To create a new one: zael namespace create defaul FLAGS'

describeOnEngine('zael limits', () => {
  const table = useTable()
  const repository = new Repository({stack: table.name, transport: table.transport})
  let namespace: NamespaceRepository
  const cli = tableCli(table)

  beforeAll(async () => {
    await repository.namespaces.register('default')
    namespace = await repository.namespace()
    await namespace.entities.create({id: 'team-1'})
    await namespace.entities.create({id: 'user-1', parent: 'team-1', cascade: true})
  })

  beforeEach(async () => {
    for (const scope of [
      {level: 'system'},
      {level: 'resource', resource: 'gpt-4'},
      {level: 'entity', entity: 'team-1', resource: DEFAULT_RESOURCE},
    ] as const) {
      await namespace.configs.delete(scope).catch(() => {})
    }
  })

  it('set merges, replaces only with --only, and shows the previous limits', async () => {
    expect(await cli.show('limits set --resource gpt-4 rpm=100/min tpm=20k/min:40k', 80)).toMatchInlineSnapshot(`
      "Limits of resource gpt-4
        rpm           (none) → 100/min
        tpm           (none) → 20k/min:40k
        new           resource gpt-4, limit rpm, limit tpm
        live buckets  none affected
      "
    `)
    const merged = await cli.tell('limits set --resource gpt-4 rpm=200')
    expect(merged).toMatchObject({
      dryRun: false,
      scope: {level: 'resource', entity: null, resource: 'gpt-4'},
      changes: [
        {name: 'rpm', before: {text: 'rpm=100/min'}, after: {text: 'rpm=200/min'}},
        {name: 'tpm', before: {text: 'tpm=20k/min:40k'}, after: {text: 'tpm=20k/min:40k'}},
      ],
    })
    const replaced = await cli.tell('limits set --resource gpt-4 rpm=200 --only')
    expect(replaced.changes).toMatchObject([{name: 'rpm'}, {name: 'tpm', after: null}])
  })

  it('set --dry-run writes nothing', async () => {
    expect(await cli.show('limits set --resource gpt-4 rpm=7/sec --dry-run', 120)).toMatchInlineSnapshot(`
      "Limits of resource gpt-4 (dry run, nothing written)
        rpm      (none) → 7/sec
        affects  no live buckets
        new      resource gpt-4, limit rpm
      "
    `)
    expect(await cli.tell('limits set --resource gpt-4 rpm=7/sec --dry-run')).toMatchObject({
      dryRun: true,
      buckets: null,
    })
    expect(await namespace.configs.get({level: 'resource', resource: 'gpt-4'})).toBeUndefined()
  })

  it.each([
    ['limits set rpm=1', 'limits.scope'],
    ['limits set --resource gpt-4 rpm=abc', 'limit.syntax'],
    ['limits set --resource gpt-4 rpm=1 --on-unavailable allow', 'command.usage'],
    ['limits unset --resource gpt-4', 'limits.unset'],
    ['limits get', 'limits.scope'],
    ['limits resolve user-1', 'limits.resource'],
    ['limits list --cursor nonsense', 'page.cursor'],
  ])('refuses bad input: %s (%s)', async (command, expected) => {
    const {code, error} = await cli.fail(command)
    expect({code, error: error.code}).toEqual({code: 2, error: expected})
    expect(await namespace.configs.resources()).toEqual([])
  })

  it.each([
    ['limits get --resource gpt-44', 'limits.missing', 'Did you mean "gpt-4"?'],
    ['limits unset rpx --resource gpt-4', 'limits.missing', 'It has rpm.'],
    ['limits unset --all --yes --entity nobody', 'limits.missing', 'Run `zael limits list` to see all limits.'],
    [
      'limits unset rpm --entity user-1 --resource gpt-4',
      'limits.missing',
      'To see the limits in force: zael limits resolve user-1 gpt-4 FLAGS',
    ],
    ['limits resolve user-1 gpt-44', 'limits.missing', 'Did you mean "gpt-4"?'],
    ['limits set --system rpm=1 --namespace defaul', 'namespace.missing', NEW_NAMESPACE],
    ['limits list --namespace defaul', 'namespace.missing', NEW_NAMESPACE],
  ])('reports that %s was not found, with a hint', async (command, code, hint) => {
    await namespace.setLimits({level: 'resource', resource: 'gpt-4'}, [LIMIT])
    // The proposed command runs against the same table.
    const fullHint = hint
      .replace(/(?<=`zael [^`]+)`/, () => ` ${cli.flags.join(' ')}\``)
      .replace('FLAGS', cli.flags.join(' '))
    expect(await cli.fail(command)).toMatchObject({code: 3, error: {code, hint: fullHint}})
  })

  it('get shows one scope', async () => {
    await namespace.setLimits({level: 'system'}, [LIMIT], {onUnavailable: 'block', auditRetentionDays: 30})
    expect(await cli.show('limits get --system', 80)).toMatchInlineSnapshot(`
      "Limits of the system
        rpm              100/min
        on unavailable   block
        audit retention  30 days
      "
    `)
    expect(await cli.tell('limits get --system')).toMatchObject({
      level: 'system',
      limits: [{text: 'rpm=100/min'}],
      onUnavailable: 'block',
      auditRetentionDays: 30,
    })
  })

  it('unset removes one limit, or all after confirmation', async () => {
    const scope = {level: 'entity', entity: 'team-1', resource: DEFAULT_RESOURCE} as const
    await namespace.setLimits(scope, [LIMIT, {...LIMIT, name: 'tpm'}, {...LIMIT, name: 'tpd'}])
    expect(await cli.show('limits unset tpd --entity team-1', 80)).toMatchInlineSnapshot(`
      "Limits of entity team-1 for every resource
        rpm           100/min, unchanged
        tpd           100/min → (none)
        tpm           100/min, unchanged
        live buckets  none affected
      "
    `)
    const unconfirmed = await cli.fail('limits unset --all --entity team-1')
    expect(unconfirmed).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
    expect(unconfirmed.error.message).toContain('This removes rpm and tpm from entity team-1 for every resource')
    expect((await namespace.configs.get(scope))?.limits).toHaveLength(2)
    const gone = await cli.tell('limits unset --all --entity team-1 --yes')
    expect(gone.changes).toMatchObject([
      {name: 'rpm', after: null},
      {name: 'tpm', after: null},
    ])
    expect(await namespace.configs.get(scope)).toBeUndefined()
  })

  it('list shows configured limits by scope, page by page', async () => {
    await namespace.setLimits({level: 'system'}, [LIMIT])
    await namespace.setLimits({level: 'resource', resource: 'gpt-4'}, [LIMIT, {...LIMIT, name: 'tpm', capacity: 500}])
    await namespace.setLimits({level: 'entity', entity: 'team-1', resource: DEFAULT_RESOURCE}, [LIMIT])
    expect(await cli.show('limits list', 80)).toMatchInlineSnapshot(`
      "LEVEL           ENTITY  RESOURCE  LIMITS
      system          -       -         rpm=100/min
      resource        -       gpt-4     rpm=100/min tpm=100/min:500
      entity_default  team-1  -         rpm=100/min
      "
    `)
    const first = await cli.run('limits list --limit 2 --output csv')
    expect(first.stdout).toBe(
      'level,entity,resource,limits\nsystem,,,rpm=100/min\nresource,,gpt-4,rpm=100/min tpm=100/min:500\n',
    )
    const next = /--cursor (\S+)/.exec(first.stderr)?.[1]
    const {configs, next: end} = await cli.tell(`limits list --limit 2 --cursor ${next}`)
    expect({configs, end}).toMatchObject({
      configs: [{level: 'entity_default', entity: 'team-1', resource: null}],
      end: null,
    })
    expect((await cli.tell('limits list --resource gpt-4')).configs).toHaveLength(1)
  })

  it('list reports an empty list', async () => {
    const {code, stdout} = await cli.run('limits list --entity nobody')
    expect({code, stdout}).toEqual({
      code: 0,
      stdout: 'No limits are configured. To set one: zael limits set --resource NAME rpm=100/min\n',
    })
  })

  it('resolve shows which limits apply and why, for the parent too', async () => {
    await namespace.setLimits({level: 'system'}, [LIMIT], {onUnavailable: 'allow'})
    await namespace.setLimits({level: 'resource', resource: 'gpt-4'}, [{...LIMIT, refillAmount: 7}])
    await namespace.setLimits(
      {level: 'entity', entity: 'team-1', resource: DEFAULT_RESOURCE},
      [{...LIMIT, name: 'tpm'}],
      {replace: true},
    )
    const wide = await cli.show('limits resolve user-1 gpt-4', 120)
    expect(await cli.show('limits resolve user-1 --resource gpt-4', 80)).toBe(wide)
    expect(wide).toMatchInlineSnapshot(`
      "Limits of user-1 for gpt-4
        rpm      7/min:100
        cascade  on (of the entity itself)

      SET FOR                                     LIMITS
      entity user-1 for gpt-4           not set   -
      entity user-1 for every resource  not set   -
      resource gpt-4                    applies   rpm=7/min:100
      the system                        not used  rpm=100/min

      When the table is unavailable: allow.

      Limits of its parent team-1, also charged for every request
        tpm  100/min

      SET FOR                                     LIMITS
      entity team-1 for gpt-4           not set   -
      entity team-1 for every resource  applies   tpm=100/min
      resource gpt-4                    not used  rpm=7/min:100
      the system                        not used  rpm=100/min
      "
    `)
    expect(await cli.tell('limits resolve stranger gpt-4')).toMatchObject({
      registered: false,
      source: 'resource',
      parent: null,
    })
  })

  it('set says that use of a limit that members lack is not recorded for them, and how to record it', async () => {
    await cli.tell('limits set --resource shared rpm=100/min')
    await cli.tell('entity create payer')
    await cli.tell('entity create payee --parent payer --cascade')
    const set = "limits set --entity payer --resource shared 'usd=$5/month@UTC'"
    const hint = "zael limits set --resource shared 'usd=$5/month@UTC,soft'"
    expect(await cli.show(set, 400)).toContain(
      `Members of payer have no limit usd, so its use is recorded for payer only. To record it for each member, without refusing: ${hint}`,
    )
    expect(await cli.show('limits set --entity payer --resource shared parallel=20/inflight', 400)).not.toContain(
      'Members',
    )
    await cli.tell(hint.slice('zael '.length))
    expect(
      await cli.show("limits set --entity payer --resource shared --only 'usd=$6/month@UTC' --yes", 400),
    ).not.toContain('Members')
  })
})
