import {createServer} from 'node:http'
import {chapter} from '../../docs/demo/screen.js'
import {type Parts, runExample} from '../shared/example.js'
import {listen} from '../shared/listen.js'
import {showAccounts, showAnswer} from '../shared/report.js'
import {createApp, perUser} from './app.js'
import {chatModel} from './provider.js'

const MODEL = 'small-model'
const PROMPT = 'What is a token bucket? Answer in two sentences.'

await runExample({
  title: 'An app on the AI SDK: requests and tokens per user and day',
  provider: {requests: 2, tokens: 100_000},
  setLimits: async namespace => {
    await namespace.setLimits({level: 'resource', resource: MODEL}, ['rpd=100/day', 'tpd=180/day'])
  },
  start: ({limiter, model}) => listen(createServer(createApp(perUser(chatModel(model.url, MODEL), limiter)))),
  story,
  commands: url => [`curl -i ${url}/answer -H 'x-user: user-3' -d '${PROMPT}'`],
})

async function story(url: string, {namespace, model}: Parts): Promise<void> {
  const ask = (user: string, path: string) =>
    fetch(`${url}${path}`, {method: 'POST', headers: {'x-user': user}, body: PROMPT})

  chapter('user-1 may use 180 tokens a day; each call reserves about 112 and is settled with what it used')
  const answer = await ask('user-1', '/answer')
  const {tokens} = (await answer.json()) as {tokens: number}
  await showAnswer('user-1', 'generateText', answer, tokens)
  const streamed = await ask('user-1', '/chat')
  await streamed.text()
  await showAnswer('user-1', 'streamText', streamed, model.billedTokens - tokens)

  chapter(
    'The balance does not cover another reservation: an APICallError with status 429, before the provider is asked',
  )
  await showAnswer('user-1', 'refused by zael', await ask('user-1', '/chat'))

  chapter('The provider has its own limit: its refusal passes, and nothing is charged')
  await showAnswer('user-2', 'admitted by zael, refused by the provider', await ask('user-2', '/answer'))
  if (model.answered !== 2 || model.refused !== 1) throw new Error('the provider was asked too often')

  chapter('Charges')
  const account = {resource: MODEL, limit: 'tpd', unit: 'tokens'}
  await showAccounts(namespace, [
    {...account, entity: 'user-1', expected: model.billedTokens},
    {...account, entity: 'user-1', limit: 'rpd', unit: 'requests', expected: 2},
    {...account, entity: 'user-2', expected: 0},
  ])
}
