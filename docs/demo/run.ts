import {setTimeout as sleep} from 'node:timers/promises'
import {
  defineLimits,
  formatLimit,
  type Limit,
  type NamespaceRepository,
  RateLimiter,
  Repository,
} from '../../src/lib/index.js'
import {pressHotKey} from './hot-key.js'
import {bar, canView, chapter, count, paint, say, table, watching} from './screen.js'
import {DemoStack} from './stack.js'
import {newTally, runTraffic, type Tally} from './traffic.js'

/**
 * Shows the whole system in half a minute, on a separate local stack: limits at three levels, a team that shares a budget, a
 * mix of LLM traffic with one noisy tenant, a hot key, and the usage counted by the aggregator. On a terminal, the live view
 * shows the traffic while it runs. `--keep` leaves the stack running.
 */
const TRAFFIC_MS = 7_000
const HOT_KEY_MS = 4_000
/** How long the live view stays open after the traffic has ended. */
const LAST_LOOK_MS = 2_000
const isKept = process.argv.includes('--keep')

process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true'
say(paint('bold', 'zael: rate limiting on DynamoDB, demonstrated on a separate local stack'))

const stack = await DemoStack.inOwnFolder()
let leaving: Promise<void> | undefined
const leave = (): Promise<void> => {
  leaving ??= (async () => {
    await stack.closeView()
    await stack.show('local', 'down', '--purge', '--yes')
    await stack.remove()
  })()
  return leaving
}
const quit = (exitCode: number): void => {
  say()
  void leave().finally(() => process.exit(exitCode))
}
process.once('SIGINT', () => quit(130))
process.once('SIGTERM', () => quit(143))
process.once('SIGHUP', () => {
  // The terminal is closed: ignore errors of writing to it during cleanup.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
  quit(129)
})

let isDone = false
try {
  await story()
  isDone = true
} finally {
  if (isKept && isDone) {
    chapter('Left running')
    say(`   ${paint('cyan', `$ export ${stack.environment}`)}   then: zael local status, logs, down`)
  } else {
    chapter('Cleanup: stop the stack and delete its data')
    await leave()
  }
}

async function story(): Promise<void> {
  chapter('A local stack: engine, table, stream and aggregator')
  await stack.show('local', 'up')
  const {endpoint} = (await stack.ask('local', 'status')) as {endpoint: string}

  const repository = new Repository({stack: 'local', endpoint, principal: 'demo'})
  const limiter = new RateLimiter({stack: 'local', endpoint})
  try {
    const namespace = await repository.namespace()
    await setLimits(namespace)
    const tallies = await showTraffic(limiter)
    await showHotKey(namespace, endpoint)
    await limiter.close()
    await showUsage(namespace, tallies)
  } finally {
    await limiter.close()
    await repository.close()
  }
}

async function setLimits(namespace: NamespaceRepository): Promise<void> {
  chapter('Limits: system defaults, one resource, one team')
  const forSystem = defineLimits(['rpm=120/min', 'tpm=20k/min'])
  const forModel = defineLimits(['rpm=600/min:120', 'tpm=120k/min:40k'])
  const forTeam = defineLimits(['tpm=180k/min:60k'])
  await namespace.setLimits({level: 'system'}, forSystem)
  await namespace.setLimits({level: 'resource', resource: 'gpt-4'}, forModel)
  await namespace.setLimits({level: 'resource', resource: 'embeddings'}, embeddingLimits(), {replace: true})
  await namespace.entities.create({id: 'team-red'})
  await namespace.setLimits({level: 'entity', entity: 'team-red', resource: 'gpt-4'}, forTeam)
  for (const member of ['ada', 'ben', 'cleo']) {
    await namespace.entities.create({id: member, parent: 'team-red', cascade: true})
  }
  const spelled = (limits: readonly Limit[]) => limits.map(formatLimit).join('  ')
  table([
    ['who', 'limits'],
    ['system', spelled(forSystem)],
    ['resource gpt-4', spelled(forModel)],
    ['team-red on gpt-4', `${spelled(forTeam)}, shared by ada, ben and cleo`],
  ])
}

/** Many limits, per second to per month: they make the item so large that every write costs 5 units. */
function embeddingLimits() {
  const kinds = ['requests', 'tokens', 'images', 'audio', 'characters', 'pages', 'files', 'bytes']
  const spans = ['s=100/sec:100k', 'm=10k/min:100k', 'h=100k/hour', 'd=1M/day', 'w=5M/7day', 'mo=20M/30day']
  // As many as a level can have.
  return defineLimits(kinds.flatMap(kind => spans.map(span => `${kind}-p${span}`)).slice(0, 47))
}

/** Waits for `work`, in the live view if there is a terminal. After q the demo still waits for it; Ctrl-C ends the demo. */
async function shown<T>(line: () => string, work: Promise<T>, forMs: number, ...flags: string[]): Promise<T> {
  if (!canView) return watching(line, work)
  work.catch(() => {}) // reported below, when the terminal is free
  const exitCode = await stack.view('--interval', '1s', '--for', `${forMs + LAST_LOOK_MS}ms`, ...flags)
  if (exitCode !== 0) {
    quit(exitCode)
    await leave()
  }
  return watching(line, work)
}

async function showTraffic(limiter: RateLimiter): Promise<Tally[]> {
  chapter(`LLM traffic for ${TRAFFIC_MS / 1000} seconds: estimate, call, settle`)
  const gpt4 = {resource: 'gpt-4', pauseMs: 150}
  const tallies = [
    newTally({...gpt4, entity: 'ada', lanes: 4, tokens: 500}),
    newTally({...gpt4, entity: 'ben', lanes: 4, tokens: 500}),
    newTally({...gpt4, entity: 'cleo', lanes: 4, tokens: 1500}),
    newTally({...gpt4, entity: 'quiet', lanes: 1, tokens: 300}),
    newTally({...gpt4, entity: 'noisy', lanes: 40, pauseMs: 20, tokens: 800}),
  ]
  const sum = (of: (tally: Tally) => number) => tallies.reduce((total, tally) => total + of(tally), 0)
  const line = () => `${count(sum(tally => tally.admitted))} admitted, ${count(sum(tally => tally.refused))} refused`
  await shown(line, runTraffic(limiter, tallies, TRAFFIC_MS), TRAFFIC_MS, '--resource', 'gpt-4')
  table([
    ['who', 'admitted', 'refused', 'estimated', 'used', 'refused by'],
    ...tallies.map(({tenant, admitted, refused, estimated, used, reasons}) => [
      tenant.entity,
      count(admitted),
      count(refused),
      count(estimated),
      count(used),
      [...reasons].toSorted((a, b) => b[1] - a[1])[0]?.[0] ?? '-',
    ]),
  ])
  return tallies
}

async function showHotKey(namespace: NamespaceRepository, endpoint: string): Promise<void> {
  chapter('A hot key: 16 limiters on one bucket with 47 limits, 5 write units per write')
  const [entity, resource] = ['crawler', 'embeddings']
  const pressing = pressHotKey({
    stack: 'local',
    endpoint,
    namespace,
    entity,
    resource,
    processes: 16,
    forMs: HOT_KEY_MS,
  })
  const {admitted, seconds, shards} = await shown(() => 'sending requests', pressing, HOT_KEY_MS, '--sort', 'rate')
  say(`   ${count(admitted)} requests in ${seconds.toFixed(1)} s, ${count(Math.round(admitted / seconds))} per second`)
  say(
    shards > 1
      ? `   over 800 write units per second: the bucket was split into ${shards} shards, which share its tokens`
      : '   this machine did not reach the 800 write units per second at which a bucket is split',
  )
}

/** Waits until the aggregator has counted everything that was charged, then shows it. */
async function showUsage(namespace: NamespaceRepository, tallies: readonly Tally[]): Promise<void> {
  chapter('Usage, counted by the aggregator from the stream')
  const charged = tallies.reduce((total, {used}) => total + used, 0)
  const entities = [...tallies.map(({tenant}) => tenant.entity), 'team-red']
  const look = () => Promise.all(entities.map(entity => namespace.usage.summary({entity, resource: 'gpt-4'})))
  const tokensOf = (usage: Awaited<ReturnType<typeof look>>[number]) => usage.limits.get('tpm')?.total ?? 0
  let usages = await look()
  const ofTenants = () => usages.slice(0, tallies.length).reduce((total, usage) => total + tokensOf(usage), 0)
  for (let tries = 0; ofTenants() !== charged && tries < 50; tries++) {
    await sleep(200)
    usages = await look()
  }
  const most = Math.max(...usages.map(tokensOf))
  table([
    ['gpt-4, this hour', 'requests', 'tokens', ''],
    ...usages.map((usage, index) => [
      entities[index] as string,
      count(usage.totalEvents),
      count(tokensOf(usage)),
      bar(tokensOf(usage), most),
    ]),
  ])
  say(
    ofTenants() === charged
      ? `   ${count(charged)} tokens were charged and exactly ${count(charged)} were counted`
      : `   ${count(charged)} tokens were charged, ${count(ofTenants())} have been counted so far`,
  )
}
