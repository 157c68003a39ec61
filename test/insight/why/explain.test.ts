import {expect, it} from 'vitest'
import {whyLines, whyShortLines} from '../../../src/lib/cli/acquire/why-presenter.js'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import {DEFAULT_RESOURCE} from '../../../src/lib/core/names.js'
import {explain, type Question} from '../../../src/lib/insight/why/explain.js'
import {takeReadings} from '../../../src/lib/live/poll/poller.js'
import {declareDead, readHolder} from '../../../src/lib/repository/buckets/holders.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import {attributes} from '../../../src/lib/schema/attributes.js'
import {encodeAudit} from '../../../src/lib/schema/audit-record.js'
import {encodeEntity} from '../../../src/lib/schema/entity-record.js'
import type {RefusalCounts} from '../../../src/lib/schema/refusal-counts.js'
import {runEntity} from '../../../src/lib/schema/run-record.js'
import {encodeUsage} from '../../../src/lib/schema/usage-record.js'
import {Scene} from '../../helpers/limiter.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {reserveFor} from '../../limiter/fixtures/reserve.js'
import {request, splitInto} from '../../limiter/visit.js'

describeOnBoth('an explanation', {}, table => {
  /** Explains through a transport that refuses to write. */
  const ask = (scene: Scene, question: Partial<Question> = {}) => {
    const transport: Scene['transport'] = {
      send: (operation, input, options) => {
        if (!/^(Get|BatchGet|Query)/.test(operation)) throw new Error(`explain wants to ${operation}`)
        return scene.table.transport.send(operation, input, options)
      },
    }
    const namespace = new NamespaceRepository({...scene.tenant, transport}, undefined)
    return explain(namespace, {entity: 'user-1', resource: 'gpt-4', ...question}, () => scene.nowMs)
  }

  const used = async (
    scene: Scene,
    entity: string,
    tokens: Record<string, number>,
    more: {totalEvents?: number; firstAtMs?: number; refused?: RefusalCounts; resource?: string; start?: string} = {},
  ) => {
    const start = `${new Date(scene.nowMs).toISOString().slice(0, 13)}:00:00Z`
    const record = {namespace: scene.namespace, entity, resource: 'gpt-4', window: 'hourly' as const, start}
    const {firstAtMs} = more
    const Item = encodeUsage({
      ...record,
      totalEvents: 1,
      tokens: new Map(Object.entries(tokens)),
      ttlSeconds: undefined,
      ...more,
    } as Parameters<typeof encodeUsage>[0])
    if (firstAtMs !== undefined) Item[attributes.usage.firstAt] = {S: String(firstAtMs)}
    await table.transport.send('PutItem', {TableName: table.name, Item})
  }

  /** An entity that has a parent and keeps its charges to itself. */
  const loner = async (scene: Scene, entity: string, parent: string) => {
    const {namespace} = scene
    const record = {namespace, entity, name: entity, parent, cascade: false, metadata: {}, createdAt: '', version: 1}
    await table.transport.send('PutItem', {TableName: table.name, Item: encodeEntity(record)})
  }

  it('L2 of a run names no time and no command that adds tokens', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'tpd=1k/day@UTC')
    const run = await scene.limiter().delegate({entity: 'user-1', resource: 'gpt-4', amounts: {tpd: 50}, for: '1h'})
    await run.acquire({consume: {tpd: 40}})
    const entity = runEntity(run.id)
    const found = await ask(scene, {entity, consume: {tpd: 20}})
    expect(found).toMatchObject({admitted: false, retryAfterMs: null, limits: [{retryAfterMs: null}]})
    expect(whyLines(found)).toEqual([
      `${entity}, gpt-4: a request for 20 tpd is refused, and waiting does not help.`,
      '',
      `tpd of ${entity} refuses, waiting does not help`,
      '  level    10 of 50 left, 20 requested',
      `  set for  entity ${entity} for gpt-4: 50/1000000000sec!`,
    ])
  })

  it('S13 L8 tells who has reserved tokens of a quota that refuses, and when they come back', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=1000/min', 'tpd=10k/day@UTC')
    await reserveFor(scene, 'holder-a', {tpd: 4000})
    await reserveFor(scene, 'holder-b', {tpd: 500, entity: 'user-2'})
    scene.nowMs += 120_000
    await reserveFor(scene, 'holder-c', {tpd: 1000})
    const reserved = async (tpd: number) => (await ask(scene, {consume: {tpd}})).limits.at(-1)?.reservedBy
    expect(await reserved(5000)).toEqual([])
    expect(await reserved(6000)).toMatchObject([
      {id: 'holder-a', tokens: 4000},
      {id: 'holder-c', tokens: 1000},
    ])
    const lines = whyLines(await ask(scene, {consume: {tpd: 6000}})).join('\n')
    expect(lines).toContain(
      'gw-a (pid 991) 4,000, no beat for 2 min: comes back about 35 s after the next refusal · gw-a (pid 991) 1,000, beat 0 ms ago',
    )
    expect(lines).toContain('zael holders release holder-a')
    expect(lines).not.toContain('zael holders release holder-c')
    await declareDead(scene.tenant, 'holder-a', await readHolder(scene.tenant, 'holder-a'))
    const dead = whyLines(await ask(scene, {consume: {tpd: 6000}})).join('\n')
    expect(dead).toContain('gw-a (pid 991) 4,000, dead: comes back after the next refusal')
    scene.nowMs += 86_400_000
    expect(await reserved(11_000)).toEqual([])
  })

  it('tells when an open session ends', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'system'}, 's=200/5h!')
    const endOf = async () => (await ask(scene)).limits[0]?.resetsAtMs
    expect(await endOf()).toBeUndefined()
    const openedMs = scene.nowMs
    await scene.limiter().acquire(request({s: 150}))
    await splitInto(scene, 2)
    scene.nowMs += 3_600_000
    expect(await endOf()).toBe(openedMs + 5 * 3_600_000)
    scene.nowMs = openedMs + 5 * 3_600_000
    expect(await endOf()).toBeUndefined()
  })

  it('admits one of each limit for an unused bucket', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'system'}, 'rpm=60/min')
    await scene.configure({level: 'entity', entity: 'user-1', resource: DEFAULT_RESOURCE}, 'rpm=100/min', 'tpm=20k/min')
    const explanation = await ask(scene)
    expect(explanation).toMatchObject({admitted: true, retryAfterMs: 0, isRegistered: false, parents: []})
    expect(explanation.limits).toMatchObject([
      {name: 'rpm', source: 'entity_default', requested: 1, available: 100, shards: [{shard: 0, available: 100}]},
      {name: 'tpm', source: 'entity_default', requested: 1, available: 20_000},
    ])
    expect(explanation.limits[0]?.scope).toEqual({level: 'entity', entity: 'user-1', resource: DEFAULT_RESOURCE})
  })

  it('counts the slots of the entity and its parent, one for a typical request', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'system'}, 'rpm=60/min', 'parallel=20/inflight')
    await scene.configure({level: 'entity', entity: 'team', resource: DEFAULT_RESOURCE}, 'parallel=2/inflight')
    await scene.entity('user-1', 'team')
    const unused = await ask(scene)
    expect(unused.inFlight).toMatchObject([
      {limit: 'parallel', entity: 'user-1', capacity: 20, free: 20, requested: 1, exceeded: false, holders: []},
      {limit: 'parallel', entity: 'team', level: 'parent', capacity: 2, free: 2, requested: 1, exceeded: false},
    ])
    const limiter = scene.limiter()
    const lease = await limiter.acquire({entity: 'user-1', resource: 'gpt-4', consume: {rpm: 1}})
    const one = await ask(scene)
    expect([one.admitted, one.inFlight.map(({free}) => free)]).toEqual([true, [19, 1]])
    expect(whyLines(one)).toEqual(
      expect.arrayContaining([
        'parallel of the parent team has room: 1 of 2 in flight',
        '  level    1 of 2 slots free, 1 requested',
        expect.stringMatching(/^ {2}held by {2}.* 1, beat /),
      ]),
    )
    const two = await ask(scene, {consume: {rpm: 1, parallel: 2}})
    expect(two.limits).toMatchObject([{name: 'rpm', requested: 1}])
    expect(two.inFlight).toMatchObject([{exceeded: false}, {exceeded: true, retryAfterMs: 1000}])
    expect([two.admitted, two.retryAfterMs]).toEqual([false, 1000])
    expect((await ask(scene, {consume: {parallel: 3}})).retryAfterMs).toBe(null)
    await lease.commit()
    expect((await ask(scene, {consume: {parallel: 2}})).admitted).toBe(true)
  })

  it('names who holds exhausted slots, and helps without a wait that nobody knows', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'system'}, 'rpm=60/min', 'parallel=2/inflight')
    const request = {entity: 'user-1', resource: 'gpt-4', consume: {rpm: 1, parallel: 2}}
    await scene.limiter().acquire(request)
    const refused = whyLines(await ask(scene), ' --stack prod')
    expect(refused[0]).toBe(
      'user-1, gpt-4: a typical request (1 rpm) is refused: 2 of 2 slots of parallel in use. It will be admitted when requests in flight end.',
    )
    expect(refused.join('\n')).not.toContain('holders release')
    expect(refused.slice(-3)).toEqual([
      'To admit it sooner:',
      expect.stringContaining('zael holders list --wait --slots --stack prod'),
      expect.stringContaining('zael limits set --entity user-1 --resource gpt-4 parallel=4/inflight --stack prod'),
    ])
    scene.nowMs += 60_000
    const later = await ask(scene)
    const id = later.inFlight[0]?.holders[0]?.id
    const lines = whyLines(later)
    expect(lines.join('\n')).toMatch(/held by {2}.* 2, no beat for 1 min/)
    expect(lines).toContainEqual(expect.stringContaining(`zael holders release ${id}`))
    expect(whyShortLines({entity: 'user-1', atMs: 0, explanations: [later]})[0]).toContain(
      'refused: 2 of 2 slots of parallel in use',
    )
  })

  it("uses the bucket's average request without amounts, as watch does, and shows recent refusals", async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'system'}, 'rpm=100/min', 'tpm=1000/min')
    await scene.entity('user-1', 'team')
    const limits = (requests: number, tokens: number) => new Map([['tpm', {requests, tokens: BigInt(tokens)}]])
    const long = {...{requests: 7, byParent: 0}, lastAtMs: scene.nowMs, limits: limits(7, 700)}
    scene.nowMs -= 5 * 3_600_000
    await used(scene, 'user-1', {rpm: 10, tpm: 5001}, {totalEvents: 10, refused: long})
    scene.nowMs += 5 * 3_600_000
    const refused = {requests: 3, byParent: 2, lastAtMs: scene.nowMs - 4000, limits: limits(3, 2400)}
    await used(scene, 'user-1', {rpm: 10, tpm: 6999}, {totalEvents: 10, refused})
    await used(scene, 'team', {rpm: 1}, {refused: {...refused, byParent: 0}})
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 1, tpm: 500}))
    await limiter.acquire(request({rpm: 1, tpm: 301}))
    const explanation = await ask(scene)
    expect(explanation).toMatchObject({
      basis: 'typical',
      admitted: false,
      recent: {admitted: 10, refused: {requests: 3, byParent: 2, lastAtMs: scene.nowMs - 4000}},
    })
    const result = explanation.limits.map(each => [each.entity, each.name, each.requested, each.refused.requests])
    expect(result).toEqual([
      ['user-1', 'rpm', 1, 0],
      ['user-1', 'tpm', 401, 3],
      ['team', 'rpm', 1, 0],
      ['team', 'tpm', 401, 3],
    ])
    const {readings} = await takeReadings(
      new NamespaceRepository(scene.tenant, undefined),
      scene.tenant,
      {kind: 'entity', entity: 'user-1'},
      {signal: new AbortController().signal},
    )
    expect([...readings.values()].map(({typical}) => typical)).toEqual([[1, 401]])
    expect(await ask(scene, {consume: {tpm: 5}})).toMatchObject({basis: 'asked', admitted: true})
    expect(await ask(scene, {entity: 'user-2'})).toMatchObject({basis: 'one-token'})
  })

  it('leaves limits that the clients never charge out of a typical request', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=100/min', 'tpd=5/day@UTC')
    await scene.entity('user-1', 'team')
    await using limiter = scene.limiter()
    await limiter.acquire(request({rpm: 1}))
    // The quota of the team is used up by another member.
    await scene.entity('user-2', 'team')
    await limiter.acquire(request({rpm: 1, tpd: 5}, 'user-2'))
    await limiter.settled()
    const names = async (question: Partial<Question> = {}) =>
      (await ask(scene, question)).limits.map(({name, entity}) => `${name} of ${entity}`)
    expect(await names()).toEqual(['rpm of user-1', 'rpm of team'])
    expect(await ask(scene)).toMatchObject({basis: 'typical', admitted: true})
    expect(whyLines(await ask(scene))[0]).toBe('user-1, gpt-4: a typical request (1 rpm) is admitted now.')
    expect(await names({entity: 'user-2'})).toHaveLength(4)
    // Without a first request, nobody knows.
    expect(await names({entity: 'user-3'})).toEqual(['rpm of user-3', 'tpd of user-3'])
    expect(await ask(scene, {consume: {tpd: 1}})).toMatchObject({basis: 'asked', admitted: false})
    // Its own limit has refused requests that asked for some.
    const limits = new Map([['tpd', {requests: 1, tokens: 9n}]])
    await used(scene, 'user-1', {rpm: 1}, {refused: {requests: 1, byParent: 0, lastAtMs: scene.nowMs, limits}})
    expect(await names()).toHaveLength(4)
  })

  it('explains the provider account that refused the entity, with the callers it refused', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'tpm=1000/min')
    await scene.configure({level: 'entity', entity: 'org', resource: 'models'}, 'tpm=100/min')
    const limiter = scene.limiter()
    await limiter.acquire({entity: 'org', resource: 'models', consume: {tpm: 80}})
    const hour = {requests: 0, byParent: 4, lastAtMs: scene.nowMs, limits: new Map()}
    const refused = (requests: number) => ({...hour, byParent: requests, accounts: new Map([['org#models', requests]])})
    await used(scene, 'user-1', {tpm: 50}, {refused: refused(4)})
    await used(scene, 'user-2', {tpm: 70}, {refused: refused(1)})
    await used(scene, 'user-3', {tpm: 99}, {})
    const callers = new Map([['gpt-4', 5]])
    const limits = new Map([['tpm', {requests: 5, tokens: 400n}]])
    await used(
      scene,
      'org',
      {tpm: 80},
      {resource: 'models', refused: {...hour, requests: 5, byParent: 0, callers, limits}},
    )
    const listed = [
      {entity: 'user-2', resource: 'gpt-4', requests: 1, tokens: 70},
      {entity: 'user-1', resource: 'gpt-4', requests: 4, tokens: 50},
    ]
    const explanation = await ask(scene)
    expect(explanation).toMatchObject({
      admitted: false,
      limits: [
        {level: 'entity', entity: 'user-1', exceeded: false},
        {level: 'provider', entity: 'org', resource: 'models', requested: 80, exceeded: true, callers: listed},
      ],
    })
    expect(explanation.limits[1]?.refused).toEqual({requests: 5, tokens: 400})
    expect(await ask(scene, {consume: {tpm: 5}})).toMatchObject({admitted: true, limits: [{}, {callers: listed}]})
    expect((await ask(scene, {entity: 'org', resource: 'models'})).limits).toMatchObject([
      {level: 'entity', callers: listed},
    ])
    expect((await ask(scene, {entity: 'user-3'})).limits).toHaveLength(1)
    await limiter.close()
  })

  it('tells when the refusals began, over hours that follow each other', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'tpm=1000/min')
    scene.nowMs = Date.UTC(2026, 0, 2, 12, 5)
    const atMs = (hour: number, minute: number) => Date.UTC(2026, 0, 2, hour, minute)
    const refuse = async (hour: number, first: number | undefined, last: number) => {
      const start = `2026-01-02T${String(hour).padStart(2, '0')}:00:00Z`
      const instants = {lastAtMs: atMs(hour, last), ...(first !== undefined && {firstAtMs: atMs(hour, first)})}
      await used(scene, 'user-1', {}, {start, refused: {requests: 1, byParent: 0, limits: new Map(), ...instants}})
    }
    const began = async () => (await ask(scene)).recent.refusedSince
    await refuse(8, 1, 2)
    expect(await began()).toBeUndefined()
    await refuse(12, 4, 4)
    expect(await began()).toEqual({atMs: atMs(12, 4), isHour: false})
    await refuse(12, 1, 4)
    await refuse(11, 42, 58)
    expect(await began()).toEqual({atMs: atMs(11, 42), isHour: false})
    await refuse(10, undefined, 41)
    expect(await began()).toEqual({atMs: atMs(11, 42), isHour: false})
    await refuse(10, undefined, 41)
    await refuse(11, undefined, 58)
    expect(await began()).toEqual({atMs: atMs(10, 0), isHour: true})
  })

  it('gives the share of refusals since they began, not of the hour', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'tpm=1000/min')
    scene.nowMs = Date.UTC(2026, 0, 2, 12, 5)
    const began = {firstAtMs: Date.UTC(2026, 0, 2, 12, 1), lastAtMs: scene.nowMs, byParent: 0, limits: new Map()}
    const whole = {hour: '2026-01-02T11:00:00Z', since: '2026-01-02T11:00:00Z', admitted: 1900}
    const count = (before?: number, limits: RefusalCounts['limits'] = new Map()) =>
      used(
        scene,
        'user-1',
        {tpm: 1000},
        {
          ...{start: '2026-01-02T12:00:00Z', totalEvents: 1000},
          refused: {...began, requests: 300, limits, ...(before !== undefined && {before})},
        },
      )
    await used(scene, 'user-1', {tpm: 900}, {start: '2026-01-02T11:00:00Z', totalEvents: 900})
    await count()
    expect((await ask(scene)).recent).toMatchObject(whole)
    await count(900)
    const {recent} = await ask(scene)
    expect(recent).toMatchObject({since: '2026-01-02T12:01:00Z', admitted: 100, refused: {requests: 300}})
    expect(recent.charged.requests).toBe(1900)
    expect((await ask(scene)).limits[0]).toMatchObject({isPressed: false, demandPerSecond: undefined})
    await count(900, new Map([['tpm', {requests: 300, tokens: 600n}]]))
    // 100 admitted and 600 refused tokens in four minutes.
    const [pressed] = (await ask(scene)).limits
    expect(pressed).toMatchObject({exceeded: false, isPressed: true})
    expect(pressed?.demandPerSecond).toBeCloseTo(700 / 240)
    expect(whyLines(await ask(scene)).join(' ')).toContain(
      '75 % of requests refused (300 of 400 since refusals began at 2026-01-02T12:01:00Z',
    )
    // Refusals are written some seconds late: too early to tell.
    scene.nowMs = began.firstAtMs + 30_000
    expect((await ask(scene)).recent).toMatchObject(whole)
  })

  it("counts a parent's refusals since they began there, not since those of the child", async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'tpm=1000/min')
    await scene.entity('user-1', 'team')
    scene.nowMs = Date.UTC(2026, 0, 2, 12, 45)
    const refuse = (entity: string, minute: number, change: Partial<RefusalCounts>) => {
      const instants = {firstAtMs: Date.UTC(2026, 0, 2, 12, minute), lastAtMs: scene.nowMs}
      return used(
        scene,
        entity,
        {tpm: 10},
        {
          totalEvents: 10,
          refused: {requests: 0, byParent: 0, limits: new Map(), before: 10, ...instants, ...change},
        },
      )
    }
    await refuse('user-1', 39, {byParent: 7})
    await refuse('team', 4, {requests: 90, limits: new Map([['tpm', {requests: 90, tokens: 90n}]])})
    const explanation = await ask(scene)
    expect(explanation.recent.since).toBe('2026-01-02T12:39:00Z')
    expect(explanation.limits.at(-1)).toMatchObject({entity: 'team', refusedSince: '2026-01-02T12:04:00Z'})
    expect(whyLines(explanation).join('\n')).toContain('90 requests for 90 since 2026-01-02T12:04:00Z')
  })

  it('averages the demand since the first use, not over the empty time before', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'tpd=2000/day@UTC')
    await scene.limiter().acquire(request({tpd: 2000}))
    // Refusals began 40 s ago, too late for counts of their own: the counts cover the hour before too.
    scene.nowMs = Date.UTC(2026, 0, 2, 4, 5)
    await scene.limiter().acquire(request({tpd: 2000}))
    const limits = new Map([['tpd', {requests: 10, tokens: 400n}]])
    const instants = {firstAtMs: scene.nowMs - 40_000, lastAtMs: scene.nowMs - 1000}
    const refused = {...instants, requests: 10, byParent: 0, before: 50, limits}
    const count = (firstAtMs?: number) =>
      used(scene, 'user-1', {tpd: 2000}, {totalEvents: 50, refused, ...(firstAtMs !== undefined && {firstAtMs})})
    const demand = async () => (await ask(scene)).limits[0]?.demandPerSecond
    await count(scene.nowMs - 120_000)
    expect((await ask(scene)).recent).toMatchObject({since: '2026-01-02T03:00:00Z'})
    expect(await demand()).toBeCloseTo(2400 / 120)
    // Written by an older aggregator, which stored no first use: since the start of the hour.
    await count()
    expect(await demand()).toBeCloseTo(2400 / 300)
    await used(scene, 'user-1', {tpd: 600}, {start: '2026-01-02T03:00:00Z', firstAtMs: scene.nowMs - 3_000_000})
    expect(await demand()).toBeCloseTo(3000 / 3000)
  })

  it('takes no average below the rate for the demand if it may include a pause, and the limit refuses now', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=60/min:10')
    scene.nowMs = Date.UTC(2026, 0, 2, 12, 35)
    await scene.limiter().acquire(request({rpm: 10}))
    const refuse = (minute: number) => {
      const instants = {firstAtMs: Date.UTC(2026, 0, 2, 12, minute), lastAtMs: scene.nowMs}
      const limits = new Map([['rpm', {requests: 90, tokens: 90n}]])
      const refused = {requests: 90, byParent: 0, limits, before: 0, ...instants}
      return used(scene, 'user-1', {rpm: 60}, {totalEvents: 60, refused})
    }
    const demand = async (rpm = 1) => (await ask(scene, {consume: {rpm}})).limits[0]?.demandPerSecond
    await refuse(30)
    expect(await demand()).toBeCloseTo(150 / 300)
    await refuse(5)
    expect(await demand()).toBeUndefined()
    // It has refilled: bursts.
    scene.nowMs += 10_000
    expect(await demand(5)).toBeCloseTo(150 / 1810)
  })

  it('tells that limits or a switch were changed after the last refusal', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'tpm=1000/min')
    const repository = new NamespaceRepository(scene.tenant, undefined)
    const limits = new Map([['tpm', {requests: 96, tokens: 96n}]])
    const refused = {requests: 96, byParent: 0, blocked: 90, lastAtMs: scene.nowMs - 48_000, limits}
    await used(scene, 'user-1', {tpm: 16}, {totalEvents: 16, refused})
    const texts = async () => whyLines(await ask(scene)).slice(0, 2)
    const share = '86 % of requests refused (96 of 112 since'
    expect((await texts())[0]).toContain(`user-1, gpt-4: ${share}`)
    await repository.setLimits({level: 'entity', entity: 'user-2', resource: 'gpt-4'}, ['tpm=1'])
    await repository.setLimits({level: 'entity', entity: 'user-1', resource: 'other'}, ['tpm=1'])
    expect((await ask(scene)).changedAtMs).toBeUndefined()
    await repository.setLimits({level: 'entity', entity: 'user-1', resource: 'gpt-4'}, ['tpm=2000'])
    expect((await ask(scene)).changedAtMs).toBe(scene.nowMs)
    const [verdict, recent] = await texts()
    expect(verdict).toMatch(/ is admitted now\.$/)
    expect(recent).toMatch(
      /^user-1: no refusals are recorded since limits or a switch changed at 2023-11-14 22:13 UTC\. /,
    )
    // The record does not tell which of the 16 admitted requests came after the change.
    expect(recent).toContain(
      'Before that: 96 requests refused (since 2023-11-14T22:00:00Z, 90 by a block, last 48 s ago).',
    )
    const [short] = whyShortLines({entity: 'user-1', atMs: scene.nowMs, explanations: [await ask(scene)]})
    expect(short).toContain('; before the last change: 96 requests refused (since')
    expect(`${recent} ${short}`).not.toContain('%')
  })

  it('takes the average request from recorded usage if the counters of the bucket do not tell', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'tpm=10k/min')
    const limiter = scene.limiter()
    const lease = await limiter.acquire(request({tpm: 50}))
    for (const tpm of [40, 30, 30]) {
      await lease.consume({tpm})
    }
    await lease.commit()
    expect(await ask(scene)).toMatchObject({basis: 'one-token', limits: [{requested: 1}]})
    await used(scene, 'user-1', {tpm: 150}, {totalEvents: 1})
    expect(await ask(scene)).toMatchObject({basis: 'typical', limits: [{requested: 150}]})
  })

  it('shows the switch of a disabled entity or parent, its scope, and no limits', async () => {
    const scene = new Scene(table)
    const repository = new NamespaceRepository(scene.tenant, 'ada')
    const set = {at: `${new Date(scene.nowMs).toISOString().slice(0, 19)}Z`, by: 'ada'}
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=6/min')
    await repository.entities.create({id: 'org'})
    await repository.entities.create({id: 'user-1', parent: 'org', cascade: true})
    const scope = {level: 'entity', entity: 'org', resource: DEFAULT_RESOURCE} as const
    await repository.setAccess(scope, 'disabled')
    expect(await ask(scene)).toMatchObject({admitted: false, retryAfterMs: null, limits: []})
    expect((await ask(scene)).disabled).toEqual({entity: 'org', scope, set})
    const own = {level: 'resource', resource: 'gpt-4'} as const
    await repository.setAccess(own, 'disabled')
    expect((await ask(scene)).disabled).toEqual({entity: 'user-1', scope: own, set})
  })

  it('shows the switch of a resource without limits', async () => {
    const scene = new Scene(table)
    const scope = {level: 'entity', entity: 'user-1', resource: DEFAULT_RESOURCE} as const
    await new NamespaceRepository(scene.tenant, 'ada').setAccess(scope, 'disabled')
    const blocked = {admitted: false, disabled: {scope, set: {by: 'ada'}}, limits: []}
    expect(await ask(scene)).toMatchObject(blocked)
    expect(await ask(scene, {consume: {rpm: 1}})).toMatchObject(blocked)
    await expect(scene.limiter().acquire(request({rpm: 1}))).rejects.toMatchObject({code: 'resource.disabled'})
  })

  it('tells who set a switch last, and nothing if no event is left', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=6/min')
    const scope = {level: 'entity', entity: 'user-1', resource: DEFAULT_RESOURCE} as const
    const by = (name: string) => new NamespaceRepository(scene.tenant, name)
    await by('ada').setAccess(scope, 'disabled', {reason: 'leaked'})
    // Events of one instant have no order.
    scene.nowMs += 1000
    await by('bob').setAccess(scope, 'bypass')
    expect((await ask(scene)).bypassed).toMatchObject([{set: {by: 'bob'}}])
    scene.nowMs += 1000
    await by('cyd').setAccess(scope, 'disabled', {reason: 'again'})
    await by('dan').setAccess({...scope, resource: 'gpt-4'}, undefined)
    expect((await ask(scene)).disabled).toMatchObject({reason: 'again', set: {by: 'cyd'}})
    await by('eve').configs.set({...scope, resource: 'other'}, [parseLimit('rpm=1/min')])
    expect((await ask(scene)).disabled?.set?.by).toBe('cyd')
    const {records} = await by('x').audit.list({entity: 'user-1'})
    for (const record of records) {
      const {PK, SK} = encodeAudit(record)
      await table.transport.send('DeleteItem', {TableName: table.name, Key: {PK, SK} as never})
    }
    expect((await ask(scene)).disabled).toEqual({entity: 'user-1', scope, reason: 'again'})
  })

  it('knows an entity by its record, limits, bucket or usage, and suggests similar ids for others', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=6/min')
    await scene.configure({level: 'entity', entity: 'user-11', resource: 'other'}, 'rpm=6/min')
    await scene.limiter().acquire(request({rpm: 1}))
    await new NamespaceRepository(scene.tenant, undefined).entities.create({id: 'user-12'})
    const unknown = async (entity: string) => (await ask(scene, {entity})).unknown
    expect(await unknown('user-1')).toBeUndefined()
    expect(await unknown('user-11')).toBeUndefined()
    expect((await unknown('user_12'))?.nearest).toEqual(['user-12'])
  })

  it('shows the time until it clears, as a refusal does', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=6/min')
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 6}))
    scene.nowMs += 5000
    const {retryAfterMs} = await limiter.check(request({rpm: 2}))
    expect(retryAfterMs).toBeGreaterThan(0)
    const explanation = await ask(scene, {consume: {rpm: 2}})
    expect(explanation).toMatchObject({admitted: false, retryAfterMs})
    expect(explanation.limits).toMatchObject([{name: 'rpm', available: 0, requested: 2, exceeded: true}])
    scene.nowMs += retryAfterMs as number
    expect(await ask(scene, {consume: {rpm: 2}})).toMatchObject({admitted: true})
  })

  it('follows limits that were changed since the bucket was written', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=100/min')
    await scene.limiter().acquire(request({rpm: 1}))
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=5/min', 'tpm=7/min')
    expect((await ask(scene)).limits).toMatchObject([
      {name: 'rpm', capacity: 5, available: 5},
      {name: 'tpm', capacity: 7, available: 7},
    ])
  })

  it('shows the balance of each shard', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=100/min')
    await scene.limiter().acquire(request({rpm: 20}))
    await splitInto(scene, 4)
    const [limit] = (await ask(scene)).limits
    expect(limit?.shards.map(({shard, capacity}) => [shard, capacity])).toEqual([0, 1, 2, 3].map(each => [each, 25]))
    expect(limit?.shards.reduce((sum, {available}) => sum + available, 0)).toBe(80)
    expect(limit?.available).toBe(80)
  })

  it('names the children that drained the parent in this hour, largest first', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=100/min', 'tpm=20k/min')
    await scene.configure({level: 'entity', entity: 'team-1', resource: 'gpt-4'}, 'rpm=5/day')
    await scene.entity('team-1')
    for (const child of ['user-1', 'user-2', 'user-3']) await scene.entity(child, 'team-1')
    await scene.limiter().acquire(request({rpm: 5}, 'user-2'))
    await used(scene, 'user-1', {rpm: 2})
    await used(scene, 'user-2', {rpm: 3, tpm: 9})
    await used(scene, 'stranger', {rpm: 50})
    await loner(scene, 'user-4', 'team-1')
    await used(scene, 'user-4', {rpm: 50})
    const explanation = await ask(scene, {consume: {rpm: 1, tpm: 1}})
    expect(explanation).toMatchObject({admitted: false, parents: ['team-1'], isRegistered: true})
    expect(explanation.limits.map(({name, level, exceeded}) => [name, level, exceeded])).toEqual([
      ['rpm', 'entity', false],
      ['tpm', 'entity', false],
      ['rpm', 'parent', true],
    ])
    expect(explanation.limits.map(({drainedBy}) => drainedBy)).toEqual([
      [],
      [],
      [
        {entity: 'user-2', tokens: 3},
        {entity: 'user-1', tokens: 2},
      ],
    ])
    expect(explanation.limits[2]?.drainedByOthers).toBe(0)
    expect(explanation.limits[2]?.heaviest).toMatchObject({entity: 'user-2', share: 0.6, limit: {refillAmount: 100}})
    // The hour of the team includes its own requests, and children that have moved.
    await used(scene, 'team-1', {rpm: 12})
    await scene.entity('user-2', 'team-2')
    const moved = (await ask(scene, {consume: {rpm: 1}})).limits.at(-1)
    expect(moved).toMatchObject({drainedBy: [{entity: 'user-1', tokens: 2}], drainedByOthers: 10})
    expect(moved?.heaviest).toBeUndefined()
    await scene.entity('user-2', 'team-1')
    // Asked about the team itself, its children are named too.
    const [team] = (await ask(scene, {entity: 'team-1'})).limits
    expect(team?.drainedBy).toHaveLength(2)
    // The next hour is another one.
    scene.nowMs += 3_600_000
    const later = await ask(scene, {consume: {rpm: 5}})
    expect(later).toMatchObject({admitted: false})
    expect(later.limits.flatMap(({drainedBy}) => drainedBy)).toEqual([])
  })

  it('L6 names no share of a child that moved in this hour', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=100/min')
    await scene.configure({level: 'entity', entity: 'team-1', resource: 'gpt-4'}, 'rpm=5/day')
    const {entities} = new NamespaceRepository(scene.tenant, undefined)
    for (const team of ['team-1', 'team-2']) await entities.create({id: team})
    await entities.create({id: 'user-1', parent: 'team-2', cascade: true})
    await entities.create({id: 'user-2', parent: 'team-1', cascade: true})
    await entities.update('user-2', {name: 'renamed'})
    await entities.update('user-1', {parent: 'team-1'})
    await scene.limiter().acquire(request({rpm: 4}, 'user-1'))
    await scene.limiter().acquire(request({rpm: 1}, 'user-2'))
    await used(scene, 'user-1', {rpm: 94})
    await used(scene, 'user-2', {rpm: 1})
    await used(scene, 'team-1', {rpm: 5})
    const limits = async () => (await ask(scene, {consume: {rpm: 1}})).limits.at(-1)
    expect(await limits()).toMatchObject({drainedBy: [{entity: 'user-2', tokens: 1}], drainedByOthers: 4})
  })

  it('omits a parent that is not charged', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=5/min')
    await scene.entity('team-1')
    await loner(scene, 'user-1', 'team-1')
    const explanation = await ask(scene)
    expect(explanation).toMatchObject({isRegistered: true, parents: []})
    expect(explanation.limits).toHaveLength(1)
  })

  it('includes limits that only the parent has', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=5/min')
    await scene.configure({level: 'entity', entity: 'team-1', resource: 'gpt-4'}, 'usd=10/day@UTC')
    await scene.entity('user-1', 'team-1')
    await using limiter = scene.limiter()
    await limiter.acquire({entity: 'user-1', resource: 'gpt-4', consume: {rpm: 1, usd: 8}})
    await limiter.settled()
    const explanation = await ask(scene)
    expect(explanation).toMatchObject({admitted: false, limits: [{name: 'rpm'}, {name: 'usd', entity: 'team-1'}]})
    expect(explanation.limits[1]).toMatchObject({level: 'parent', requested: 8, available: 2, exceeded: true})
    expect(await ask(scene, {consume: {rpm: 1, usd: 2}})).toMatchObject({admitted: true})
  })

  it('never clears for a request that is too large', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=5/min')
    expect(await ask(scene, {consume: {rpm: 6}})).toMatchObject({admitted: false, retryAfterMs: null})
  })

  it('is refused for limits that do not apply, and without limits', async () => {
    const scene = new Scene(table)
    await expect(ask(scene)).rejects.toMatchObject({code: 'limits.missing', kind: 'notFound'})
    await scene.configure({level: 'entity', entity: 'user-1', resource: 'gpt-4'}, 'rpm=5/min')
    await expect(ask(scene, {consume: {rpx: 1}})).rejects.toMatchObject({code: 'limit.unknown', kind: 'usage'})
    // As an acquire would be.
    await scene.entity('user-1', 'team-1')
    await expect(ask(scene)).rejects.toMatchObject({code: 'limits.missing', details: {entity: 'team-1'}})
    await expect(scene.limiter().acquire(request({rpm: 1}))).rejects.toMatchObject({code: 'limits.missing'})
  })
})
