import type {Server} from 'node:http'
import {createAdaptorServer} from '@hono/node-server'
import {hashKey} from 'zael'
import {chapter} from '../../docs/demo/screen.js'
import {type Parts, runExample} from '../shared/example.js'
import {listen} from '../shared/listen.js'
import {showAccounts, showAnswer} from '../shared/report.js'
import {createGateway} from './gateway.js'

const [LARGE, SMALL] = ['large-model', 'small-model'] as const
const PRICES = {[LARGE]: {input: 10, output: 10}, [SMALL]: {input: 1, output: 1}}
const MESSAGES = [{role: 'user', content: 'What is a token bucket? Answer in two sentences.'}]
const [ADA, BEN, RED] = ['key-of-ada', 'key-of-ben', 'key-of-red'].map(hashKey) as [string, string, string]

await runExample({
  title: 'A gateway: keys of teams, prices, streams, a fallback and a budget',
  provider: {requests: 4, tokens: 100_000},
  setLimits: async namespace => {
    await namespace.setLimits({level: 'resource', resource: 'gateway'}, ['rpm=600/min', 'parallel=8/inflight'])
    for (const resource of [LARGE, SMALL])
      await namespace.setLimits({level: 'resource', resource}, ['rpd=100/day', 'tpd=200/day', 'usd=$1/day'])
    await namespace.entities.create({id: 'team-blue'})
    for (const id of [ADA, BEN]) await namespace.entities.create({id, parent: 'team-blue', cascade: true})
    // The first budget covers all calls of the large model below. The second covers a single call of the small model.
    const budget = {level: 'entity', entity: 'team-blue'} as const
    await namespace.setLimits({...budget, resource: LARGE}, ['usd=$0.01/day@UTC'])
    await namespace.setLimits({...budget, resource: SMALL}, ['usd=$0.00015/day@UTC'])
  },
  start: ({limiter, model}) => {
    const {fetch} = createGateway({limiter, provider: model.url, prices: PRICES, fallback: [LARGE, SMALL]})
    return listen(createAdaptorServer({fetch}) as Server)
  },
  story,
  commands: url => [
    `curl -i ${url}/v1/chat/completions -H 'x-api-key: mine' -d '{"model": "${SMALL}", "max_tokens": 50, "messages": []}'`,
  ],
})

async function story(url: string, {namespace, model}: Parts): Promise<void> {
  const ask = (key: string, path: string, more: object = {}) =>
    fetch(`${url}${path}`, {
      method: 'POST',
      headers: {'content-type': 'application/json', 'x-api-key': key},
      body: JSON.stringify({model: LARGE, max_tokens: 100, messages: MESSAGES, ...more}),
    })
  const chat = '/v1/chat/completions'
  const stream = {stream: true, stream_options: {include_usage: true}}
  let dollars = 0
  const show = async (who: string, what: string, response: Response) => {
    const text = await response.text()
    const tokens = usageIn(text)
    const used = /"model":\s*"([^"]+)"/.exec(text)?.[1] ?? ''
    dollars += tokens * (used === SMALL ? 0 : PRICES[LARGE].input)
    await showAnswer(who, `${what}, by ${used}`, response, tokens)
  }

  chapter('Ada may use 200 tokens of the large model a day; each call reserves about 112 and is settled with its use')
  await show('ada', 'chat completion as JSON', await ask('key-of-ada', chat))
  await show('ada', 'chat completion as a stream', await ask('key-of-ada', chat, stream))
  await show('ada', 'message of Anthropic as a stream', await ask('key-of-ada', '/v1/messages', {stream: true}))

  chapter('The balance does not cover another reservation: the small model answers instead')
  await show('ada', 'chat completion', await ask('key-of-ada', chat))

  chapter('The budget of the team is used up: zael refuses Ben too, and the provider is not asked')
  const answeredBefore = model.answered
  await showAnswer('ben', 'refused by zael', await ask('key-of-ben', chat, {model: SMALL}))

  chapter('The provider has its own limit: its refusal passes, and nothing is charged')
  await showAnswer('red', 'admitted by zael, refused by the provider', await ask('key-of-red', chat))
  if (model.answered !== answeredBefore || model.refused !== 1) throw new Error('the provider was asked too often')

  chapter('Charges')
  const account = {limit: 'tpd', unit: 'tokens'}
  await showAccounts(namespace, [
    {...account, entity: ADA, expected: model.billedTokens},
    {entity: 'team-blue', resource: LARGE, limit: 'usd', unit: 'millionths of a dollar', expected: dollars},
    {entity: ADA, resource: 'gateway', limit: 'rpm', unit: 'requests to the gateway', expected: 4},
    {entity: BEN, resource: 'gateway', limit: 'rpm', unit: 'requests to the gateway', expected: 1},
    {...account, entity: RED, expected: 0},
  ])
}

/** Tokens in the `usage` of an answer: the last count of each kind that a stream has. */
function usageIn(text: string): number {
  const last = (name: RegExp) => Number([...text.matchAll(name)].at(-1)?.[1] ?? 0)
  return last(/"(?:prompt|input)_tokens":(\d+)/g) + last(/"(?:completion|output)_tokens":(\d+)/g)
}
