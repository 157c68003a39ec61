import {spawnSync} from 'node:child_process'
import {randomUUID} from 'node:crypto'
import {existsSync} from 'node:fs'
import {fileURLToPath} from 'node:url'
import {parseLimits} from '../src/lib/core/limits/limit-text.js'
import {resolveConnection} from '../src/lib/dynamo/connection.js'
import {createTable, loadTableDefinition} from '../src/lib/dynamo/table-definition.js'
import {createTransport} from '../src/lib/dynamo/transports/create.js'
import {startEngine} from '../src/lib/local/engines/engine.js'
import {Repository} from '../src/lib/repository/repository.js'
import {percentile} from './measure.js'
import {machineLine, say, short, textTable} from './report.js'

/** Programs take turns, so that other load affects all of them. */
const ROUNDS = process.argv.includes('--quick') ? 5 : 15

const bin = fileURLToPath(new URL('../bin/run.js', import.meta.url))
if (!existsSync(new URL('../dist/commands', import.meta.url)))
  throw new Error('dist is missing: run "npm run build" first')

/** Node reads these certificates at every start, which hides the differences between programs. */
const {NODE_EXTRA_CA_CERTS: _, ...env} = process.env

const engine = await startEngine({})
try {
  const stack = `bench-${randomUUID()}`
  const transport = createTransport({
    connection: resolveConnection({endpointUrl: engine.endpoint}, {}),
    clock: Date.now,
  })
  await createTable(transport, await loadTableDefinition({stream: false, tableName: stack}))
  const repository = new Repository({stack, transport})
  await repository.namespaces.register('default')
  await (await repository.namespace()).setLimits({level: 'system'}, parseLimits(['rpm=100']))
  await transport.close()

  const onStack = ['--json', '--stack', stack, '--endpoint-url', engine.endpoint]
  const programs: ReadonlyArray<readonly [name: string, args: readonly string[]]> = [
    ['node -e 0', ['-e', '0']],
    ['zael --help', [bin, '--help']],
    ['zael config show', [bin, 'config', 'show']],
    ['zael limits get --json', [bin, 'limits', 'get', '--system', ...onStack]],
  ]
  const timesMs = new Map(programs.map(([name]) => [name, [] as number[]]))
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, args] of programs) timesMs.get(name)?.push(timeOf(name, args))
  }

  const bareMs = percentile(timesMs.get('node -e 0') ?? [], 0.5)
  const rows = [...timesMs].map(([name, times]) => {
    const medianMs = percentile(times, 0.5)
    return [name, short(medianMs), short(Math.min(...times)), short(medianMs / bareMs)]
  })
  say(machineLine(engine.name))
  say(`medians of ${ROUNDS} runs, taking turns\n`)
  say(textTable(['program', 'median ms', 'least ms', 'ratio to node'], rows))
} finally {
  await engine.stop()
}

function timeOf(name: string, args: readonly string[]): number {
  const startedMs = performance.now()
  const {status, stderr} = spawnSync(process.execPath, args, {encoding: 'utf8', env})
  if (status !== 0) throw new Error(`${name} ended with ${status}: ${stderr}`)
  return performance.now() - startedMs
}
