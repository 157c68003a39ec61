import {request as httpRequest} from 'node:http'
import {inspect} from 'node:util'
import {anything, asyncProperty, assert as check, constantFrom, oneof, record, string} from 'fast-check'
import {afterEach, beforeEach, describe, expect, it} from 'vitest'
import {limitedModel} from '../../src/lib/adapters/ai-sdk.js'
import {hashKey} from '../../src/lib/adapters/express.js'
import {limitedFetch} from '../../src/lib/adapters/fetch.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {runs} from '../helpers/runs.js'
import {SERVERS, type TestServer} from './servers.js'

const SECRET = 'sk-live-0123456789'

interface Asked {
  readonly entity: unknown
  readonly resource?: unknown
  readonly consume?: unknown
}

describeOnBoth('adapters of HTTP servers with unusual input', {}, table => {
  describe.each(Object.entries(SERVERS))('%s', (_, start) => {
    let scene: Scene
    let limiter: RateLimiter
    let server: TestServer
    let asked: Asked
    let errors: unknown[]
    beforeEach(async () => {
      scene = new Scene(table)
      limiter = scene.limiter({sleep: async () => {}})
      errors = []
      await scene.configure({level: 'resource', resource: 'api'}, 'rpm=1M/min')
      server = await start(
        {
          limiter,
          entityOf: () => asked.entity as string,
          resource: () => ('resource' in asked ? asked.resource : 'api') as string,
          consume: () => ('consume' in asked ? asked.consume : {rpm: 1}) as {rpm: number},
          onError: error => errors.push(error),
        },
        async () => ({status: 200, body: 'ok'}),
      )
    })
    afterEach(async () => {
      await server.close()
      await limiter.close()
    })

    async function send(next: Asked) {
      asked = next
      const response = await fetch(server.url)
      const [text, headers] = [await response.text(), JSON.stringify([...response.headers])]
      return {status: response.status, text, headers}
    }

    const spent = async (entity: string, resource = 'api') => (await scene.totals(entity, resource, 'rpm')).consumed

    it.each([
      ['10.0.0.1', '10.0.0.1'],
      ['::ffff:10.0.0.1', '10.0.0.1'],
      ['::FFFF:10.0.0.1', '10.0.0.1'],
      ['::ffff:a00:1', 'x--::ffff:a00:1'],
      ['::1', 'x--::1'],
      ['::', 'x--::'],
      ['2001:db8::8a2e:370:7334', '2001:db8::8a2e:370:7334'],
      ['64:ff9b::10.0.0.1', '64:ff9b::10.0.0.1'],
      ['fe80::1%eth0', 'x--fe80::1__25eth0'],
      ['10.0.0.1:54321', '10.0.0.1:54321'],
      ['[2001:db8::1]:443', 'x--__5b2001:db8::1__5d:443'],
      ['10.0.0.1, 10.0.0.2', 'x--10.0.0.1__2c__2010.0.0.2'],
    ])('charges the address %s as %s', async (address, entity) => {
      expect(await send({entity: address})).toMatchObject({status: 200})
      expect(await spent(entity)).toBe(1)
    })

    it.each([
      ['claude-3-5-sonnet@20240620', 'x--claude-3-5-sonnet__4020240620'],
      ['01-ai/Yi-34B', 'x--01-ai/Yi-34B'],
      ['@cf/meta/llama', 'x--__40cf/meta/llama'],
    ])('charges the model %s as %s', async (model, resource) => {
      await scene.configure({level: 'system'}, 'rpm=10/min')
      expect(await send({entity: 'user-1', resource: model})).toMatchObject({status: 200})
      expect(await spent('user-1', resource)).toBe(1)
    })

    it('keeps reserved names out of reach', async () => {
      await scene.configure({level: 'system'}, 'rpm=10/min')
      for (const name of [
        '_default_',
        'PK',
        'GSI1PK',
        'ttl',
        '$SYSTEM',
        '$RESOURCE:api',
        '#META',
        'a#b',
        '__proto__',
      ]) {
        expect(await send({entity: name, resource: name})).toMatchObject({status: 200})
        expect(await scene.shards(name, name)).toEqual([])
      }
    })

    it.each([
      ['no entity', {entity: undefined}, 'The request has no key that identifies the caller.'],
      ['an empty entity', {entity: ''}, 'The request has no key that identifies the caller.'],
      ['an empty key', {entity: hashKey('')}, 'The request has no key that identifies the caller.'],
      ['an entity that is an object', {entity: {id: 7}}, 'The request has no key that identifies the caller.'],
      ['an overlong entity', {entity: SECRET.repeat(20)}, 'The key that identifies the caller is too long.'],
      [
        'an entity that is too long when encoded',
        {entity: '#'.repeat(80)},
        'The key that identifies the caller is too long.',
      ],
      ['no resource', {entity: SECRET, resource: undefined}, 'The request names no resource, such as a model.'],
      ['an empty resource', {entity: SECRET, resource: ''}, 'The request names no resource, such as a model.'],
      ['an unknown resource', {entity: SECRET, resource: 'gpt-9'}, 'The requested resource is not available.'],
      ['a negative amount', {entity: SECRET, consume: {rpm: -1}}, 'The request asks for an invalid amount.'],
      [
        'an amount that is not a number',
        {entity: SECRET, consume: {rpm: Number.NaN}},
        'The request asks for an invalid amount.',
      ],
      [
        'an amount that is not even text',
        {entity: SECRET, consume: {rpm: [{toString: undefined}]}},
        'The request asks for an invalid amount.',
      ],
      ['no amounts', {entity: SECRET, consume: undefined}, 'The request asks for an invalid amount.'],
    ])('refuses %s with 400', async (_what, next, detail) => {
      const {status, text, headers} = await send(next)
      expect({status, ...JSON.parse(text)}).toEqual({type: 'about:blank', title: 'Bad Request', status: 400, detail})
      expect(headers).toContain('application/problem+json')
      expect(headers + text).not.toContain(SECRET)
      expect(errors).toEqual([])
    })

    it('never responds with 500, and never shows the key, for any entity, resource and amount', async () => {
      await scene.configure({level: 'system'}, 'rpm=10/min')
      const warnings: string[] = []
      const listen = (warning: Error) => warnings.push(inspect(warning))
      process.on('warning', listen)
      const text = oneof(
        string({unit: 'binary', maxLength: 400}),
        string({unit: 'grapheme'}),
        constantFrom('', '#', '\0'),
      )
      const any = oneof(text, anything())
      const amounts = oneof(record({rpm: anything()}), anything(), constantFrom({rpm: 1}, {unknown: 1}))
      await check(
        asyncProperty(any, any, amounts, async (entity, resource, consume) => {
          for (const next of [{entity}, {entity: 'user-1', resource}, {entity: 'user-1', consume}])
            expect([200, 400, 429]).toContain((await send(next)).status)
          const {text, headers} = await send({entity: SECRET, resource, consume})
          expect(text + headers).not.toContain(SECRET)
        }),
        {numRuns: 20},
      )
      process.off('warning', listen)
      expect(errors).toEqual([])
      expect(warnings.join()).not.toContain(SECRET)
    })

    it('takes any header', async () => {
      asked = {entity: ''}
      for (const value of ['\u00e9\u00ff', ' ', '"', '\t', 'a'.repeat(8000), ['a', 'b']]) {
        const status = await new Promise(resolve => {
          const sent = httpRequest(server.url, {headers: {'x-user': value, 'x-forwarded-for': value}}, response => {
            response.resume().on('end', () => resolve(response.statusCode))
          })
          sent.end()
        })
        expect(status).toBe(400)
      }
    })

    it('hides the entity in errors for the error handler', async () => {
      await server.close()
      server = await start(
        {limiter, entityOf: () => SECRET, resource: 'gpt-9', consume: {rpm: 1}, onError: error => errors.push(error)},
        async () => ({status: 200, body: 'ok'}),
      )
      expect(await send({entity: SECRET})).toMatchObject({status: 500, text: 'limits.missing'})
      expect(errors).toHaveLength(1)
      expect(inspect(errors, {depth: 9})).toContain('No level has limits for entity (hidden) and resource gpt-9.')
      expect(inspect(errors, {depth: 9})).not.toContain(SECRET)
    })
  })
})

describeOnBoth('calls to models with unusual input', {}, table => {
  it('are sent or refused, whatever the key, path, headers and body', async () => {
    const scene = new Scene(table)
    const limiter = scene.limiter({sleep: async () => {}})
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=1k/min', 'tpm=1M/min')
    const send = limitedFetch(limiter, {
      entity: ({headers}) => hashKey(headers.get('x-api-key')),
      fetch: async () => new Response('{"usage": {"prompt_tokens": 5, "completion_tokens": 3}}'),
    })
    const statuses = new Set<number>()
    const text = string({unit: 'binary', maxLength: 100})
    const fields = ['messages', 'input', 'tools', 'max_tokens', 'max_completion_tokens', 'n', 'generationConfig']
    const json = record(
      {model: oneof(constantFrom('gpt-4'), anything()), ...Object.fromEntries(fields.map(name => [name, anything()]))},
      {requiredKeys: []},
    ).map(value => JSON.stringify(value, (_, part) => (typeof part === 'bigint' ? String(part) : part)))
    await check(
      asyncProperty(oneof(json, text), text, oneof(text, constantFrom('', 'sk-1')), async (body, path, key) => {
        const url = `http://127.0.0.1/v1/${encodeURIComponent(Buffer.from(path).toString())}`
        const headers = {'x-api-key': key.replace(/[^\u0020-\u007e]/g, '')}
        const response = await send(url, {method: 'POST', body, headers})
        statuses.add(response.status)
      }),
      {numRuns: runs(300)},
    )
    for (const most of [
      {max_tokens: 2e6},
      {max_tokens: [{toString: false}], n: {valueOf: 1}},
      ...[2 ** 53 - 1, -1, '9', 1e300, 0.5].map(n => ({max_tokens: 2 ** 53 - 1, n})),
    ]) {
      const body = JSON.stringify({model: 'gpt-4', ...most})
      statuses.add((await send('http://127.0.0.1/v1', {method: 'POST', body, headers: {'x-api-key': 'sk-1'}})).status)
    }
    await limiter.close()
    expect([...statuses].toSorted()).toEqual([200, 400, 429])
  })

  it('are charged by the usage, whatever else the provider sends', async () => {
    const scene = new Scene(table)
    const limiter = scene.limiter({sleep: async () => {}})
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=1k/min', 'tpm=1M/min')
    const odd = {toString: false}
    const events = [{type: odd}, {type: [odd], usage: {prompt_tokens: odd, completion_tokens: [odd]}}]
    const usage = {usage: {prompt_tokens: 5, completion_tokens: '3'}, choices: []}
    const streamed = [...events, usage].map(event => `data: ${JSON.stringify(event)}\n\n`).join('')
    const send = limitedFetch(limiter, {
      entity: 'user-1',
      fetch: async () => new Response(streamed, {headers: {'content-type': 'text/event-stream'}}),
    })
    const body = JSON.stringify({model: 'gpt-4', max_tokens: 100})
    expect(await (await send('http://127.0.0.1/v1', {method: 'POST', body})).text()).toBe(streamed)
    await limiter.close()
    expect((await scene.totals('user-1', 'gpt-4', 'tpm')).consumed).toBe(8)
  })

  it('that fail with an unusual error are refunded, and fail with it', async () => {
    const scene = new Scene(table)
    const limiter = scene.limiter({sleep: async () => {}})
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=1k/min', 'tpm=1M/min')
    const odd = {toString: false}
    const {wrapGenerate} = limitedModel(limiter, {entity: 'user-1'})
    const model = {modelId: 'gpt-4', provider: 'test'}
    for (const error of [
      {statusCode: 500, responseBody: odd},
      {code: odd, cause: {code: 'ECONNREFUSED'}},
    ]) {
      const doGenerate = () => Promise.reject(error)
      await expect(wrapGenerate({model, params: {prompt: 'x'}, doGenerate})).rejects.toBe(error)
    }
    await limiter.close()
    expect((await scene.totals('user-1', 'gpt-4', 'rpm')).consumed).toBe(0)
  })
})
