import type {Server} from 'node:http'
import {createAdaptorServer} from '@hono/node-server'
import {chapter} from '../../docs/demo/screen.js'
import {type Parts, runExample} from '../shared/example.js'
import {listen} from '../shared/listen.js'
import {showAccounts, showAnswer} from '../shared/report.js'
import {createGateway} from './gateway.js'

const MODEL = 'small-model'
const MESSAGES = [{role: 'user', content: 'What is a token bucket? Answer in two sentences.'}]

await runExample({
  title: 'A Hono gateway: requests per key, tokens per key and model',
  provider: {requests: 3, tokens: 100_000},
  setLimits: async namespace => {
    await namespace.setLimits({level: 'resource', resource: 'gateway'}, ['rpm=600/min'])
    await namespace.setLimits({level: 'resource', resource: MODEL}, ['rpd=100/day', 'tpd=200/day'])
  },
  start: ({limiter, model}) => {
    const {fetch} = createGateway({limiter, provider: model.url})
    return listen(createAdaptorServer({fetch}) as Server)
  },
  story,
  commands: url => [
    `curl -i ${url}/v1/chat/completions -H 'x-api-key: team-green' -d '{"model": "${MODEL}", "max_tokens": 50, "messages": []}'`,
  ],
})

async function story(url: string, {namespace, model}: Parts): Promise<void> {
  const ask = (key: string, path: string, more: object = {}) =>
    fetch(`${url}${path}`, {
      method: 'POST',
      headers: {'content-type': 'application/json', 'x-api-key': key},
      body: JSON.stringify({model: MODEL, max_tokens: 100, messages: MESSAGES, ...more}),
    })
  const chat = '/v1/chat/completions'
  const stream = {stream: true, stream_options: {include_usage: true}}

  chapter('team-blue may use 200 tokens a day; each call reserves about 112 and is settled with what it used')
  const answer = await ask('team-blue', chat)
  await showAnswer('team-blue', 'chat completion as JSON', answer, usageIn(await answer.text()))
  const streamed = await ask('team-blue', chat, stream)
  await showAnswer('team-blue', 'chat completion as a stream', streamed, usageIn(await streamed.text()))
  const message = await ask('team-blue', '/v1/messages', {stream: true})
  await showAnswer('team-blue', 'message of Anthropic as a stream', message, usageIn(await message.text()))

  chapter('What is left does not cover another reservation: zael refuses, and the provider is not asked')
  const answeredBefore = model.answered
  await showAnswer('team-blue', 'refused by zael', await ask('team-blue', chat))

  chapter('The provider has its own limit: its refusal passes, and nothing is charged')
  await showAnswer('team-red', 'admitted by zael, refused by the provider', await ask('team-red', chat))
  if (model.answered !== answeredBefore || model.refused !== 1) throw new Error('the provider was asked too often')

  chapter('Charges')
  const account = {resource: MODEL, limit: 'tpd', unit: 'tokens'}
  await showAccounts(namespace, [
    {...account, entity: 'team-blue', expected: model.billedTokens},
    {entity: 'team-blue', resource: 'gateway', limit: 'rpm', unit: 'requests to the gateway', expected: 4},
    {entity: 'team-red', resource: 'gateway', limit: 'rpm', unit: 'requests to the gateway', expected: 1},
    {...account, entity: 'team-red', expected: 0},
  ])
}

/** Tokens in the `usage` of an answer: the last count of each kind that a stream has. */
function usageIn(text: string): number {
  const last = (name: RegExp) => Number([...text.matchAll(name)].at(-1)?.[1] ?? 0)
  return last(/"(?:prompt|input)_tokens":(\d+)/g) + last(/"(?:completion|output)_tokens":(\d+)/g)
}
