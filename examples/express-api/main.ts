import {createServer} from 'node:http'
import {hashKey} from 'zael'
import {chapter} from '../../docs/demo/screen.js'
import {type Parts, runExample} from '../shared/example.js'
import {listen} from '../shared/listen.js'
import {showAccounts, showAnswer} from '../shared/report.js'
import {createApi} from './api.js'

const KEY = 'key-of-ada'
const QUESTION = JSON.stringify({question: 'What is a token bucket?'})

await runExample({
  title: 'An Express API: requests and tokens per API key and day',
  provider: {requests: 1_000, tokens: 100_000},
  setLimits: async namespace => {
    await namespace.setLimits({level: 'resource', resource: 'api'}, ['rpd=7/day', 'tpd=5k/day'])
  },
  start: ({limiter, model}) => listen(createServer(createApi({limiter, provider: model.url}))),
  story,
  commands: url => [
    `curl -i ${url}/notes -H 'x-api-key: key-of-ben'`,
    `curl -iN ${url}/answers/stream -H 'x-api-key: key-of-ben' -H 'content-type: application/json' -d '${QUESTION}'`,
  ],
})

async function story(url: string, {namespace, model}: Parts): Promise<void> {
  const get = (path: string) => fetch(`${url}${path}`, {headers: {'x-api-key': KEY}})
  const ask = (path: string) =>
    fetch(`${url}${path}`, {
      method: 'POST',
      headers: {'x-api-key': KEY, 'content-type': 'application/json'},
      body: QUESTION,
    })

  chapter('ada has 7 requests and 5,000 tokens a day; what is left comes with every answer')
  await showAnswer('ada', 'GET /notes', await get('/notes'))
  await showAnswer('ada', 'GET /health, which is not limited', await get('/health'))

  chapter('An answer of a model reserves 100 tokens; the handler settles them when it knows what was used')
  const answer = await ask('/answers')
  const {tokens} = (await answer.json()) as {tokens: number}
  await showAnswer('ada', 'POST /answers', answer, tokens)
  const streamed = await ask('/answers/stream')
  const [, total] = /"total_tokens":(\d+)/.exec(await streamed.text()) ?? []
  await showAnswer('ada', 'POST /answers/stream', streamed, Number(total))

  chapter('An answer with status 500 is refunded')
  await showAnswer('ada', 'GET /broken', await get('/broken'))

  chapter('A report costs five requests, and four are left')
  await showAnswer('ada', 'GET /reports', await get('/reports'))

  chapter('Charges')
  const account = {entity: hashKey(KEY), resource: 'api'}
  await showAccounts(namespace, [
    {...account, limit: 'rpd', unit: 'requests', expected: 3},
    {...account, limit: 'tpd', unit: 'tokens', expected: model.billedTokens},
  ])
}
