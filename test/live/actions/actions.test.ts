import {afterAll, beforeAll, beforeEach, describe, expect, inject, it, vi} from 'vitest'
import {openStack, type StackContext} from '../../../src/lib/cli/base/context.js'
import {findSettings} from '../../../src/lib/cli/base/settings.js'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {bucketActions} from '../../../src/lib/live/actions/actions.js'
import type {ActionKind, ActionTarget, BucketActions} from '../../../src/lib/live/state/actions.js'
import {Repository} from '../../../src/lib/repository/repository.js'
import {readOnlyProxy} from '../../e2e/read-only-proxy.js'
import {tableCli} from '../../e2e/table-cli.js'
import {importLines} from '../../helpers/import-lines.js'
import {readSources} from '../../helpers/sources.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'
import {newTenant, putBucket} from '../../repository/namespace-table.js'

const LIMITS = ['rpm=100', 'tpm=10k']

/** Refilled that far ahead of time, nothing is refilled meanwhile. */
const AHEAD_MS = 43_200_000

/** The row of an entity. */
const rowOf = (entity: string, rest: Partial<ActionTarget> = {}): ActionTarget => ({
  entity,
  resource: 'gpt-4',
  limit: 'tpm',
  isDisabled: false,
  refusingParents: [],
  ...rest,
})

describeOnEngine('actions of the live view', () => {
  const table = useTable()
  const cli = tableCli(table)
  let stack: StackContext
  let actions: BucketActions
  let namespace: Awaited<ReturnType<Repository['namespace']>>
  let count = 0
  let id: string

  const flagsAt = (endpoint: string) => ({stack: table.name, namespace: 'default', 'endpoint-url': endpoint})
  const actionsOf = async (context: StackContext, flags: Record<string, unknown>) =>
    bucketActions(
      context,
      (await findSettings({flags, env: {}, folder: '/', configDir: '/nowhere'})).settings,
      new AbortController().signal,
    )

  /** An entity with a bucket of which something was used. */
  async function newEntity(entity = `user-${++count}`): Promise<string> {
    const tenant = {...newTenant(table), namespace: namespace.id, nowMs: Date.now() + AHEAD_MS}
    await putBucket(tenant, {entity, resource: 'gpt-4', limits: parseLimits(LIMITS), consumed: 60})
    return entity
  }

  /** The audit events of an entity without ids and times, newest first. */
  async function eventsOf(entity: string) {
    const {records} = await namespace.audit.list({entity})
    return records.map(({eventId: _, timestamp: __, ttlSeconds: ___, ...event}) =>
      JSON.parse(JSON.stringify(event).replaceAll(entity, 'ENTITY')),
    )
  }

  const where = () => `--stack ${table.name} --namespace default --endpoint-url ${inject('engineEndpoint')}`

  beforeAll(async () => {
    const repository = new Repository({stack: table.name, transport: table.transport})
    await repository.namespaces.register('default')
    namespace = await repository.namespace()
    await namespace.setLimits({level: 'resource', resource: 'gpt-4'}, parseLimits(LIMITS))
    const flags = flagsAt(inject('engineEndpoint'))
    stack = await openStack(flags, {})
    actions = await actionsOf(stack, flags)
  })

  afterAll(() => stack[Symbol.asyncDispose]())

  beforeEach(async () => {
    id = await newEntity()
  })

  it('previews the balances of a reset and resets like zael bucket reset', async () => {
    const other = await newEntity()
    const {command, lines, perform} = await actions.ask('reset', rowOf(id), undefined)
    expect(command.join(' ')).toBe(`zael bucket reset ${id} --resource gpt-4 ${where()}`)
    expect(lines).toEqual([
      `This refills every limit of ${id} for gpt-4 and clears its debt:`,
      '  rpm  40 → 100',
      '  tpm  9,940 → 10,000',
      'Recorded usage does not change.',
    ])
    expect(await eventsOf(id)).toEqual([])
    expect(await perform()).toEqual([`The bucket of ${id} for gpt-4 is full: rpm +60, tpm +60`])
    await cli.tell(`bucket reset ${other} --resource gpt-4 --yes`)
    expect(await eventsOf(id)).toMatchObject([{action: 'bucket_reset', details: {amounts: {rpm: 60, tpm: 60}}}])
    expect(await eventsOf(id)).toEqual(await eventsOf(other))
    expect((await namespace.bucket({entity: id, resource: 'gpt-4'}))?.limits).toMatchObject([
      {available: 100},
      {available: 10_000},
    ])
  })

  it('drafts a boost of twice the current limit, shows its end and boosts like zael limits set --for', async () => {
    const other = await newEntity()
    expect(await actions.boostText(rowOf(id))).toBe('tpm=20k/min --for 1h')
    const day = new Date(Date.now() + 40 * 86_400_000).toISOString().slice(0, 10)
    const {command, lines, perform} = await actions.ask('boost', rowOf(id), `tpm=30k/min  --until ${day}`)
    expect(command.join(' ')).toBe(
      `zael limits set --entity ${id} --resource gpt-4 tpm=30k/min --until ${day} ${where()}`,
    )
    const text = lines.join('\n')
    expect(text).toMatch(new RegExp(`^This changes the limits of entity ${id} for gpt-4:\n`))
    expect(text).toMatch(/tpm +10k\/min → 30k\/min until \d{4}-\d\d-\d\d \d\d:\d\d UTC, then 10k\/min \(\w+ level\)/)
    expect(text).toMatch(/rpm +100\/min, unchanged, copied from resource gpt-4/)
    expect(text).toContain('Expires at ')
    expect(text).not.toContain('dry run')
    expect(await eventsOf(id)).toEqual([])
    expect((await perform()).join('\n')).toMatch(/live buckets +1 updated/)
    await cli.tell(`limits set --entity ${other} --resource gpt-4 tpm=30k/min --until ${day}`)
    expect(await eventsOf(id)).toMatchObject([{action: 'limits_set'}])
    expect(await eventsOf(id)).toEqual(await eventsOf(other))
    // The draft starts from the current boost.
    expect(await actions.boostText(rowOf(id))).toBe('tpm=60k/min --for 1h')
  })

  it.each([
    ['tpm=30k/min', 'A boost needs limits and exactly one end.'],
    ['tpm=30k/min --for', 'A boost needs limits and exactly one end.'],
    ['tpm=30k/min --for 1h --until 2030-01-01', 'A boost needs limits and exactly one end.'],
    ['tpm=30k/min --only --for 1h', 'A boost needs limits and exactly one end.'],
    ['--for 1h', 'No limits are given'],
    ['tpm=fast --for 1h', 'Cannot read the limit'],
    ['tpm=30k/min --for soon', '"soon" is not a duration'],
    ['xyz=30k/min --for 1h', 'Limit xyz does not exist'],
    ['tpm=30k/min --until 2001-01-01', 'is not in the future'],
  ])('refuses the boost "%s" and writes nothing', async (text, why) => {
    await expect(actions.ask('boost', rowOf(id), text)).rejects.toThrow(why)
    expect(await eventsOf(id)).toEqual([])
  })

  it('accepts the drafted boost of a limit with windows, and proposes a top-up for a quota', async () => {
    const entity = await newEntity()
    const scope = {level: 'entity', entity, resource: 'gpt-4'} as const
    const open = '"* * * * *"'
    const texts = [
      'a=20/inflight',
      'tpd=10k@"0 9 * * 1-5"',
      `rpm=100/min,x0.5@${open}`,
      `tpm=10k/min,40k/min:50k@${open}`,
    ]
    await namespace.setLimits(scope, parseLimits(texts))
    // Drafts double the rate in force. For rpm, that equals the rate outside of the window.
    const drafts = {rpm: 'rpm=100/min', tpm: 'tpm=80k/min:100k'}
    for (const [limit, expected] of Object.entries(drafts)) {
      const draft = await actions.boostText(rowOf(entity, {limit}))
      const {command, lines, perform} = await actions.ask('boost', rowOf(entity, {limit}), draft)
      expect(command).toContain(expected)
      if (limit !== 'rpm') continue
      expect(lines.join('\n')).toContain('rpm')
      await perform()
      expect(await actions.boostText(rowOf(entity, {limit}))).toBe('rpm=200/min --for 1h')
    }
    // A row without a known limit gets the first one that can be boosted.
    expect(await actions.boostText(rowOf(entity, {limit: undefined}))).toBe('rpm=200/min --for 1h')
    await expect(actions.boostText(rowOf(entity, {limit: 'a'}))).rejects.toMatchObject({
      code: 'watch.boost',
      hint: expect.stringContaining(`zael limits set --entity ${entity} --resource gpt-4 a=40/inflight ${where()}`),
    })
    await expect(actions.ask('boost', rowOf(entity), 'a=30 --for 1h')).rejects.toMatchObject({code: 'until.in-flight'})
    const quota = rowOf(entity, {limit: 'tpd'})
    await expect(actions.ask('boost', quota, await actions.boostText(quota))).rejects.toMatchObject({
      code: 'until.quota',
      hint: expect.stringContaining(`zael bucket top-up ${entity} gpt-4 tpd=10k`),
    })
  })

  it('blocks like zael entity disable, and leaves no switch after unblocking', async () => {
    const other = await newEntity()
    const block = await actions.ask('block', rowOf(id), undefined)
    expect(block.command.join(' ')).toBe(`zael entity disable ${id} ${where()}`)
    expect(block.resource).toBeNull()
    expect(block.lines[0]).toBe(
      `This refuses every request of ${id} for all resources until you unblock it. Refused requests are not charged.`,
    )
    await block.perform()
    expect((await namespace.bucket({entity: id, resource: 'gpt-4'}))?.isDisabled).toBe(true)
    await cli.tell(`entity disable ${other}`)
    expect(await eventsOf(id)).toHaveLength(1)
    expect(await eventsOf(id)).toEqual(await eventsOf(other))
    const unblock = await actions.ask('unblock', rowOf(id, {isDisabled: true}), undefined)
    expect(unblock.command.join(' ')).toBe(`zael entity enable ${id} ${where()}`)
    await unblock.perform()
    await cli.tell(`entity enable ${other}`)
    expect(await eventsOf(id)).toEqual(await eventsOf(other))
    expect((await namespace.bucket({entity: id, resource: 'gpt-4'}))?.isDisabled).toBe(false)
    expect(await namespace.configs.ofEntity(id)).toEqual([])
  })

  describe('a block', () => {
    it('lists the other buckets, switches and children that it affects', async () => {
      const tenant = {...newTenant(table), namespace: namespace.id, nowMs: Date.now()}
      await putBucket(tenant, {entity: id, resource: 'search', limits: parseLimits(LIMITS)})
      await namespace.entities.create({id})
      await namespace.entities.create({id: `${id}-child`, parent: id})
      await namespace.setAccess({level: 'entity', entity: id, resource: 'batch'}, 'bypass')
      const {lines} = await actions.ask('block', rowOf(id), undefined)
      expect(lines).toContain(
        'It also has buckets for search. To block only gpt-4, run the command with --resource gpt-4.',
      )
      expect(lines).toContain('It keeps its own switches for batch (bypass).')
      expect(lines).toContain('It has 1 child. Requests of children that are charged to it are refused too.')
    })

    it('changes the switch of the resource when the entity has one', async () => {
      await namespace.setAccess({level: 'entity', entity: id, resource: 'gpt-4'}, 'enabled')
      const {command, lines, perform} = await actions.ask('block', rowOf(id), undefined)
      expect(command.slice(1, 6)).toEqual(['entity', 'disable', id, '--resource', 'gpt-4'])
      expect(lines[1]).toBe('It applies only to gpt-4, where the entity has its own switch (enabled).')
      await perform()
      expect((await namespace.bucket({entity: id, resource: 'gpt-4'}))?.isDisabled).toBe(true)
    })

    it('refuses to block a disabled entity, and to unblock an enabled one', async () => {
      await namespace.setAccess({level: 'entity', entity: id, resource: '_default_'}, 'disabled')
      await expect(actions.ask('block', rowOf(id), undefined)).rejects.toThrow(
        `${id} is already disabled for gpt-4, by the switch of entity ${id} for every resource.`,
      )
      await namespace.setAccess({level: 'entity', entity: id, resource: '_default_'}, undefined)
      await expect(actions.ask('unblock', rowOf(id), undefined)).rejects.toThrow(
        `${id} is no longer disabled for gpt-4.`,
      )
    })
  })

  it('keeps the previewed end of a boost that is confirmed in the next hour', async () => {
    let nowMs = Math.floor(Date.now() / 3_600_000) * 3_600_000 + 3_540_000
    const late = {...stack, table: {...stack.table, clock: () => nowMs}}
    const own = {level: 'entity', entity: id, resource: 'gpt-4'} as const
    const {lines, perform} = await (await actionsOf(late, flagsAt(inject('engineEndpoint')))).ask(
      'boost',
      rowOf(id),
      'tpm=200k/min --for 3h',
    )
    const until = /until ([\d-]+ [\d:]+ UTC)/.exec(lines.join('\n'))?.[1]
    nowMs += 120_000
    expect((await perform()).join('\n')).toContain(
      `tpm           10k/min → 200k/min until ${until}, then 10k/min (resource level)`,
    )
    const {limits = []} = (await namespace.configs.get(own)) ?? {}
    expect(limits.find(({name}) => name === 'tpm')?.boost?.untilMs).toBe(
      Date.parse(`${until?.replace(' UTC', 'Z').replace(' ', 'T')}`),
    )
  })

  it('refuses to act when another client changed the target after the preview', async () => {
    const own = {level: 'entity', entity: id, resource: 'gpt-4'} as const
    const changed = `Another client changed ${id} for gpt-4 after you were asked.`
    const boost = await actions.ask('boost', rowOf(id), 'tpm=200k/min --for 1h')
    await namespace.setLimits(own, parseLimits(['tpm=5M/min']))
    await expect(boost.perform()).rejects.toThrow(changed)
    expect((await namespace.configs.get(own))?.limits.find(({name}) => name === 'tpm')?.capacity).toBe(5_000_000)
    const block = await actions.ask('block', rowOf(id), undefined)
    await namespace.setAccess(own, 'bypass')
    await expect(block.perform()).rejects.toThrow(changed)
    await namespace.setAccess(own, 'disabled')
    const unblock = await actions.ask('unblock', rowOf(id), undefined)
    await namespace.setAccess(own, 'bypass')
    await expect(unblock.perform()).rejects.toThrow(`${id} is no longer disabled for gpt-4.`)
    expect((await namespace.configs.get(own))?.access).toBe('bypass')
  })

  it('names another switch that still refuses, and overrides the resource switch for this entity only', async () => {
    const target = rowOf(id, {resource: 'video', isDisabled: true})
    await namespace.setAccess({level: 'resource', resource: 'video'}, 'disabled')
    await namespace.setAccess({level: 'entity', entity: id, resource: 'video'}, 'disabled')
    const own = await actions.ask('unblock', target, undefined)
    expect([own.command.slice(1, 6), own.resource]).toEqual([['entity', 'enable', id, '--resource', 'video'], 'video'])
    expect(own.lines).toContain('Requests for video stay refused, by the switch of resource video.')
    await own.perform()
    const lifted = await actions.ask('unblock', target, undefined)
    expect(lifted.command.slice(1, 6)).toEqual(['entity', 'exempt', id, '--resource', 'video'])
    await lifted.perform()
    expect((await namespace.configs.resolve({entity: id, resource: 'video'})).access).toMatchObject({
      access: 'enabled',
      level: 'entity',
    })
  })

  it('names the switch and the parent that still refuse after a reset', async () => {
    const {lines} = await actions.ask('reset', rowOf(id, {isDisabled: true, refusingParents: ['team-1']}), undefined)
    expect(lines.slice(-2)).toEqual([
      `${id} is disabled. Its requests are refused until you unblock it with X.`,
      'The parent team-1 refuses its requests now. This action does not change the parent.',
    ])
  })

  it('draws no progress, because the view owns the screen', async () => {
    const {isTTY} = process.stderr
    const write = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
    process.stderr.isTTY = true
    try {
      for (const kind of ['boost', 'block', 'reset'] as const) {
        await (await actions.ask(kind, rowOf(id), 'tpm=20k --for 1h')).perform()
      }
      await (await actions.ask('unblock', rowOf(id), undefined)).perform()
      expect(write).not.toHaveBeenCalled()
    } finally {
      process.stderr.isTTY = isTTY
      write.mockRestore()
    }
  })

  it('reports a missing bucket, before and after the question', async () => {
    const missing = 'Entity "nobody" has no bucket for resource "gpt-4".'
    await namespace.entities.create({id: 'nobody'})
    await expect(actions.ask('reset', rowOf('nobody'), undefined)).rejects.toThrow(missing)
    const {perform} = await actions.ask('reset', rowOf(id), undefined)
    await namespace.entities.create({id})
    await namespace.entities.delete(id)
    await expect(perform()).rejects.toThrow(`Entity "${id}" has no bucket`)
  })

  it('writes nothing for a preview, and reports missing permissions', async () => {
    await using proxy = await readOnlyProxy(inject('engineEndpoint'))
    const flags = flagsAt(proxy.endpoint)
    await using readOnly = await openStack(flags, {})
    const asking = await actionsOf(readOnly, flags)
    await asking.boostText(rowOf(id))
    const kinds: ActionKind[] = ['reset', 'boost', 'block']
    const questions = await Promise.all(kinds.map(kind => asking.ask(kind, rowOf(id), 'tpm=20k --for 1h')))
    expect(proxy.takeWrites()).toEqual([])
    for (const {perform} of questions) await expect(perform()).rejects.toThrow(`(stack "${table.name}"`)
    expect(proxy.takeWrites().length).toBeGreaterThanOrEqual(3)
    expect(await eventsOf(id)).toEqual([])
  })
})

it('loads the actions only when the flag is set', async () => {
  const importers = (await readSources()).flatMap(file =>
    importLines(file).flatMap(({target, kind}) =>
      /^src\/lib\/live\/actions\//.test(target ?? '') && !/\/live\/actions\//.test(file.path)
        ? [`${kind} ${file.path}`]
        : [],
    ),
  )
  expect(importers).toEqual(['dynamic src/lib/live/run.ts'])
})
