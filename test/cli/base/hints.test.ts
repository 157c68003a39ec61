import {describe, expect, inject, it} from 'vitest'
import {openStack} from '../../../src/lib/cli/base/context.js'
import {withCommandHint, withNearestNames, withWhere} from '../../../src/lib/cli/base/hints.js'
import {findSettings} from '../../../src/lib/cli/base/settings.js'
import {calendarCheck} from '../../../src/lib/core/calendar/schedule.js'
import {ZaelError} from '../../../src/lib/core/errors.js'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {Denied, RegionMissing, Unavailable} from '../../../src/lib/dynamo/errors.js'
import {entityMissing} from '../../../src/lib/repository/entities/lineage.js'
import {nothingApplies} from '../../../src/lib/repository/limits/checks.js'
import {namespaceMissing} from '../../../src/lib/repository/namespaces/errors.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'

describe('an error of AWS', () => {
  const setting = (value?: string) => ({key: 'stack' as const, value, source: 'flag' as const, from: 'a flag'})
  const settings = {
    stack: setting('prod'),
    region: setting('eu-west-1'),
    profile: setting('ops team'),
    endpointUrl: setting(),
  }

  it('names the stack, the region and the profile', () => {
    const denied = new Denied('GetItem', new Error('no identity-based policy allows it'))
    expect(withWhere(denied, settings, {})).toMatchObject({
      code: 'dynamo.denied',
      kind: 'access',
      message:
        'Not allowed to GetItem: no identity-based policy allows it (stack "prod", region "eu-west-1", profile "ops team")',
      details: {stack: 'prod', region: 'eu-west-1', profile: 'ops team'},
    })
    const none = {...settings, region: setting(), profile: setting()}
    expect(withWhere(new RegionMissing(), none, {AWS_PROFILE: 'nope'})).toMatchObject({
      message: 'No usable AWS region is configured (stack "prod", profile "nope")',
    })
  })

  it('names the flag or variable whose region is empty', async () => {
    const found = await findSettings({flags: {region: ''}, env: {AWS_REGION: ''}, folder: '/', configDir: '/nowhere'})
    expect(withWhere(new RegionMissing(), found.settings, {AWS_REGION: ''})).toMatchObject({
      message: 'No usable AWS region is configured (stack "zae-limiter")',
      hint: '--region is empty. Pass --region, set AWS_REGION, or choose a profile that has a region.',
    })
  })

  it('says how to log in again', () => {
    const over = new Denied('GetItem', new Error('The SSO session associated with this profile has expired'))
    expect(withWhere(over, settings, {})).toMatchObject({hint: "Log in again: aws sso login --profile 'ops team'"})
  })

  it('names the variables that hold an expired session', () => {
    const over = new Denied('GetItem', new Error('The security token included in the request is expired'))
    const none = {...settings, profile: setting()}
    expect(withWhere(over, none, {AWS_ACCESS_KEY_ID: 'a', AWS_SESSION_TOKEN: 't'})).toMatchObject({
      hint: expect.stringMatching(/^The session in AWS_ACCESS_KEY_ID and AWS_SESSION_TOKEN has expired/),
    })
  })

  it('says that zael does not use the proxy variables', () => {
    const silent = new Unavailable('GetItem', false, new Error('connect ETIMEDOUT'))
    expect(withWhere(silent, settings, {https_proxy: 'http://proxy:3128'})).toMatchObject({
      hint: expect.stringContaining('https_proxy is set, but zael ignores proxies'),
    })
  })

  it('is unchanged when the stack, region and profile are irrelevant', () => {
    const error = namespaceMissing('x')
    expect(withWhere(error, settings, {})).toBe(error)
  })
})

describeOnEngine('an error about a missing name', () => {
  const table = useTable()

  async function hinted(error: unknown, stack = table.name) {
    const flags = {stack, namespace: 'default', 'endpoint-url': inject('engineEndpoint')}
    await using context = await openStack(flags, {})
    return withNearestNames(error, context)
  }

  it('suggests the nearest namespaces, or else a command', async () => {
    const flags = {stack: table.name, namespace: 'default', 'endpoint-url': inject('engineEndpoint')}
    await using context = await openStack(flags, {})
    await context.repository.namespaces.registerMany(['default', 'acme', 'acne'])
    expect(await hinted(namespaceMissing('acm'))).toMatchObject({
      code: 'namespace.missing',
      kind: 'notFound',
      message: 'Namespace "acm" does not exist.',
      hint: 'Did you mean "acme"? To create a new one: zael namespace create acm',
      details: {namespace: 'acm', nearest: ['acme']},
    })
    expect(await hinted(namespaceMissing('acxe'))).toMatchObject({
      hint: 'Did you mean "acme" or "acne"? To create a new one: zael namespace create acxe',
    })
    const hint = expect.stringContaining('To create it: zael namespace create nothing-like-it')
    expect(await hinted(namespaceMissing('nothing-like-it'))).toMatchObject({hint, details: {nearest: []}})
  })

  it('suggests entities with the same beginning', async () => {
    const flags = {stack: table.name, namespace: 'default', 'endpoint-url': inject('engineEndpoint')}
    await using context = await openStack(flags, {})
    await context.repository.namespaces.register('default')
    const {entities} = await context.namespace()
    for (const id of ['user-1', 'user-2', 'team', 'k1']) await entities.create({id})
    expect(await hinted(entityMissing('user-11'))).toMatchObject({kind: 'notFound', hint: 'Did you mean "user-1"?'})
    expect(await hinted(entityMissing('k2'))).toMatchObject({hint: 'Did you mean "k1"?'})
    expect(await hinted(entityMissing('nobody'))).toMatchObject({hint: 'zael entity list'})
    expect(await hinted(entityMissing(''))).toMatchObject({code: 'entity.missing'})
  })

  it('suggests a similar entity for an unknown one without limits', async () => {
    const flags = {stack: table.name, namespace: 'default', 'endpoint-url': inject('engineEndpoint')}
    await using context = await openStack(flags, {})
    await context.repository.namespaces.register('default')
    const namespace = await context.namespace()
    await namespace.setLimits({level: 'entity', entity: 'noa', resource: 'llm'}, ['rpm=5/min'])
    expect(await hinted(nothingApplies('noaa', 'llm'))).toMatchObject({
      hint: 'Did you mean "noa"? Otherwise: Set a limit: zael limits set --entity noaa --resource llm rpm=100/min',
      details: {nearest: ['noa']},
    })
  })

  it("suggests limits like the parent's for an entity without limits that charges its parent", async () => {
    const flags = {stack: table.name, namespace: 'default', 'endpoint-url': inject('engineEndpoint')}
    await using context = await openStack(flags, {})
    await context.repository.namespaces.register('default')
    const namespace = await context.namespace()
    await namespace.entities.create({id: 'search'})
    await namespace.entities.create({id: 'ann', parent: 'search', cascade: true})
    await namespace.entities.create({id: 'bob', parent: 'search'})
    const limits = parseLimits(['rpm=60/min', 'usd=$500/month@UTC'], calendarCheck)
    await namespace.setLimits({level: 'entity', entity: 'search', resource: 'gpt-4'}, limits)
    const error = (await hinted(nothingApplies('ann', 'gpt-4'))) as ZaelError
    expect(error).toMatchObject({code: 'limits.missing', kind: 'notFound', details: {entity: 'ann', nearest: []}})
    expect(error.hint).toBe(
      'Its parent search has rpm=60/min usd=$500/month@UTC, but ann needs its own limits. Requests of ann are then ' +
        'recorded for ann and charged to both. For all entities: ' +
        "zael limits set --resource gpt-4 rpm=60/min 'usd=$500/month@UTC'; " +
        "only for ann: zael limits set --entity ann --resource gpt-4 rpm=60/min 'usd=$500/month@UTC'",
    )
    expect(withCommandHint(error)).toBe(error)
    const other = {hint: expect.stringContaining('--entity bob --resource gpt-4 rpm=100/min')}
    expect(await hinted(nothingApplies('bob', 'gpt-4'))).toMatchObject(other)
    expect(await hinted(nothingApplies('ann', 'gpt-5'))).not.toMatchObject({hint: expect.stringContaining('search')})
  })

  it('suggests the nearest table for a stack', async () => {
    const missing = new ZaelError('notFound', 'table.missing', 'There is no table.')
    expect(await hinted(missing, `${table.name}x`)).toMatchObject({
      code: 'stack.missing',
      kind: 'notFound',
      message: `Stack "${table.name}x" not found.`,
      hint: `Did you mean "${table.name}"?`,
      cause: missing,
    })
    expect(await hinted(missing, 'zzz')).toMatchObject({hint: 'zael list, or zael deploy --stack zzz'})
  })

  it('has no suggestion when listing is not allowed; other errors stay unchanged', async () => {
    const flags = {stack: table.name, namespace: 'default', 'endpoint-url': 'http://127.0.0.1:9'}
    await using unreachable = await openStack(flags, {})
    await unreachable[Symbol.asyncDispose]()
    expect(await withNearestNames(namespaceMissing('acme'), unreachable)).toMatchObject({
      code: 'namespace.missing',
      details: {nearest: []},
    })
    for (const other of [new Error('x'), new ZaelError('failed', 'x', 'y'), 'text'])
      expect(await hinted(other)).toBe(other)
  })
})
