import {setTimeout as sleep} from 'node:timers/promises'
import {CapacityMeter} from '../../src/lib/dynamo/capacity.js'
import {resolveConnection} from '../../src/lib/dynamo/connection.js'
import {createTable} from '../../src/lib/dynamo/create-table.js'
import {createSdkTransport} from '../../src/lib/dynamo/sdk-transport.js'
import {formatLimit, parseLimits, RateLimitExceeded, RateLimiter, Repository} from '../../src/lib/index.js'
import {startEngine} from '../../src/lib/local/engine.js'
import {loadTableDefinition} from '../../src/lib/schema/table-definition.js'

/**
 * The main job in half a minute, on a real engine of its own: a table from the stack template, limits, a team and its
 * member, admitted and refused requests with what they cost, an estimate that is settled, a crowd that shares its writes.
 */
const say = (text = '') => process.stdout.write(`${text}\n`)
const step = (title: string, ...details: string[]) => {
  say(`• ${title}`)
  for (const detail of details) say(`    ${detail}`)
}
const count = (value: number) => value.toLocaleString('en')
const levels = (tokens: Record<string, number>) =>
  Object.entries(tokens)
    .map(([name, left]) => `${name} ${count(left)} left`)
    .join(', ')

process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true'
say('zael: rate limiting on DynamoDB, shown on an engine that runs inside this demo')
say()

const stack = 'zael-demo'
const engine = await startEngine()
const meter = new CapacityMeter()
const transport = createSdkTransport({
  connection: resolveConnection({endpointUrl: engine.endpoint}, {}),
  clock: Date.now,
  meterCapacity: true,
  onResponse: meter.observe,
})
const repository = new Repository({stack, transport})
const limiter = new RateLimiter({stack, transport})

/** Does something and says what it cost. */
async function metered<T>(work: () => Promise<T>): Promise<{result: T; cost: string}> {
  const before = meter.snapshot()
  const result = await work()
  const {calls, read, write} = meter.since(before)
  return {result, cost: `cost: ${calls} call(s), ${write} write unit(s), ${read} read unit(s)`}
}

try {
  step(`Started ${engine.name} at ${engine.endpoint}`, 'in memory, on loopback only, gone when this demo ends')

  const definition = await loadTableDefinition({tableName: stack, stream: false})
  await createTable(transport, definition)
  const indexes = definition.create.GlobalSecondaryIndexes.map(index => index.IndexName).join(', ')
  step(
    `Created table ${stack} from templates/stack.yaml`,
    `indexes ${indexes}; items expire by "${definition.ttlAttribute}"`,
  )

  await repository.namespaces.register('default')
  const namespace = await repository.namespace('default')
  const forModel = parseLimits(['rpm=60/min', 'tpm=10k/min:20k'])
  const forTeam = parseLimits(['tpm=15k/min'])
  await namespace.entities.create({id: 'team-1'})
  await namespace.entities.create({id: 'user-1', parent: 'team-1', cascade: true})
  await namespace.setLimits({level: 'resource', resource: 'gpt-4'}, forModel)
  await namespace.setLimits({level: 'entity', entity: 'team-1', resource: 'gpt-4'}, forTeam)
  step(
    'Set limits',
    `everybody on gpt-4: ${forModel.map(formatLimit).join(', ')}`,
    `team-1 on gpt-4: ${forTeam.map(formatLimit).join(', ')}, shared by user-1`,
  )

  const user = {entity: 'user-1', resource: 'gpt-4'}
  const first = await metered(() => limiter.acquire({...user, consume: {rpm: 1, tpm: 1000}}))
  step('First request of user-1, 1,000 tokens: admitted; the buckets are made', first.cost)
  await limiter.acquire({...user, consume: {rpm: 1}})

  const admitted = await metered(() => limiter.acquire({...user, consume: {rpm: 1, tpm: 1000}}))
  step('Another: admitted, user and team charged side by side', admitted.cost, levels(await limiter.available(user)))

  await admitted.result.adjust({tpm: 2500})
  step('It used 3,500 tokens in the end: settled', levels(await limiter.available(user)))

  const refused = await metered(() =>
    limiter.acquire({...user, consume: {tpm: 14_000}}).catch((error: unknown) => {
      if (error instanceof RateLimitExceeded) return error
      throw error
    }),
  )
  if (!(refused.result instanceof RateLimitExceeded)) throw new Error('a refusal was expected')
  const [why] = refused.result.statuses.filter(status => status.exceeded)
  step(
    'A request of 14,000 tokens: refused, nobody is charged',
    `${why?.name} of ${why?.entity}: ${count(why?.available ?? 0)} of ${count(why?.capacity ?? 0)} left; it would fit in ${count(refused.result.retryAfterMs)} ms`,
    refused.cost,
  )

  const crowd = await metered(() =>
    Promise.all(Array.from({length: 50}, () => limiter.acquire({...user, consume: {tpm: 10}}))),
  )
  step('50 requests at once: all admitted, their writes shared', crowd.cost)

  await sleep(1500)
  step('1.5 seconds later, refilled by arithmetic alone', levels(await limiter.available(user)))
} finally {
  await limiter.close()
  await repository.close()
  await transport.close()
  await engine.stop()
}
step('Stopped the engine; nothing is left behind')
say()
say('Next: npm test, or node bin/run.js --help')
