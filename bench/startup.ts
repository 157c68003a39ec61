import {spawnSync} from 'node:child_process'
import {randomUUID} from 'node:crypto'
import {existsSync} from 'node:fs'
import {mkdir, mkdtemp, rm, writeFile} from 'node:fs/promises'
import {join} from 'node:path'
import {fileURLToPath} from 'node:url'
import {type BuildOptions, build} from 'esbuild'
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

const SDK_CALL = 'SDK: import, GetItem'
const LIBRARY_PROGRAMS: ReadonlyArray<readonly [name: string, program: string]> = [
  ['SDK: import', `await import('@aws-sdk/client-dynamodb')`],
  ['zael: import', `await import('zael')`],
  [
    SDK_CALL,
    `const {DynamoDBClient, GetItemCommand} = await import('@aws-sdk/client-dynamodb')
const Key = {PK: {S: 'a'}, SK: {S: 'b'}}
await new DynamoDBClient({}).send(new GetItemCommand({TableName: process.env.ZAEL_STACK, Key}))`,
  ],
  [
    'zael: import, acquire',
    `const {RateLimiter} = await import('zael')
await new RateLimiter({stack: process.env.ZAEL_STACK}).acquire({entity: 'user-1', resource: 'gpt-4', consume: {rpm: 1}})`,
  ],
]
const REPORT = `const {user, system} = process.cpuUsage(begun)
process.stdout.write(String((user + system) / 1000), () => process.exit())`
/** As docs/lambda.md recommends. */
const BUNDLE: BuildOptions = {
  bundle: true,
  splitting: true,
  minify: true,
  platform: 'node',
  target: 'node20',
  format: 'esm',
  mainFields: ['module', 'main'],
  outExtension: {'.js': '.mjs'},
  banner: {js: `import {createRequire} from 'node:module'; const require = createRequire(import.meta.url)`},
}

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
  await (await repository.namespace()).setLimits({level: 'system'}, parseLimits(['rpm=1M']))
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
  say(
    `\n${textTable(['library', 'median CPU ms', 'least CPU ms', 'ratio to SDK GetItem'], await libraryRows(stack, engine.endpoint))}`,
  )
} finally {
  await engine.stop()
}

/** Processor time of imports and first calls in a new process, without the start of Node. */
async function libraryRows(stack: string, endpoint: string): Promise<string[][]> {
  const cache = fileURLToPath(new URL('../.cache/', import.meta.url))
  await mkdir(cache, {recursive: true})
  // Inside the package, where programs find `zael` by its name.
  const folder = await mkdtemp(join(cache, 'startup-'))
  try {
    const files: [string, string][] = []
    for (const [name, program] of LIBRARY_PROGRAMS) {
      const file = join(folder, `${files.length}.mjs`)
      await writeFile(file, `const begun = process.cpuUsage()\n${program}\n${REPORT}`)
      files.push([name, file])
      const outdir = join(folder, `bundled-${files.length}`)
      await build({entryPoints: [file], outdir, ...BUNDLE})
      files.push([`${name}, bundled`, join(outdir, `${files.length - 1}.mjs`)])
    }
    const variables = {
      ...env,
      ZAEL_STACK: stack,
      AWS_ENDPOINT_URL_DYNAMODB: endpoint,
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'local',
      AWS_SECRET_ACCESS_KEY: 'local',
      AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true',
    }
    const timesMs = new Map(files.map(([name]) => [name, [] as number[]]))
    for (let round = 0; round < ROUNDS; round++) {
      for (const [name, file] of files) {
        const {status, stdout, stderr} = spawnSync(process.execPath, [file], {encoding: 'utf8', env: variables})
        if (status !== 0) throw new Error(`${name} ended with ${status}: ${stderr}`)
        timesMs.get(name)?.push(Number(stdout))
      }
    }
    const sdkMs = percentile(timesMs.get(SDK_CALL) ?? [], 0.5)
    const sdkBundledMs = percentile(timesMs.get(`${SDK_CALL}, bundled`) ?? [], 0.5)
    return [...timesMs].map(([name, times]) => {
      const medianMs = percentile(times, 0.5)
      const ratio = medianMs / (name.endsWith('bundled') ? sdkBundledMs : sdkMs)
      return [name, short(medianMs), short(Math.min(...times)), short(ratio)]
    })
  } finally {
    await rm(folder, {recursive: true})
  }
}

function timeOf(name: string, args: readonly string[]): number {
  const startedMs = performance.now()
  const {status, stderr} = spawnSync(process.execPath, args, {encoding: 'utf8', env})
  if (status !== 0) throw new Error(`${name} ended with ${status}: ${stderr}`)
  return performance.now() - startedMs
}
