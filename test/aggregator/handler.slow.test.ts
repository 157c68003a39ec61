import {createHash} from 'node:crypto'
import {copyFile, mkdtemp, readFile, rm, writeFile} from 'node:fs/promises'
import {createServer} from 'node:http'
import type {AddressInfo} from 'node:net'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {pathToFileURL} from 'node:url'
import {afterAll, beforeAll, expect, inject, it} from 'vitest'
import type {StreamRecord} from '../../src/lib/aggregator/stream-event.js'
import {STACK_OPTIONS} from '../../src/lib/infra/stack/options.js'
import {AGGREGATOR_MARK} from '../../src/lib/repository/table/version-compatibility.js'
import type {Item} from '../../src/lib/schema/attribute-value.js'
import {encodeAudit} from '../../src/lib/schema/audit-record.js'
import {encodeVersion} from '../../src/lib/schema/version-record.js'
import {type Outcome, ROOT, run} from '../e2e/zael.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {usageOf} from './fixtures/stored-usage.js'
import {bucketImage, NOON_MS, streamRecord} from './fixtures/stream.js'

/** All runtimes that a stack can have. */
const RUNTIMES = STACK_OPTIONS.find(({name}) => name === 'runtime')?.choices ?? []

describeOnEngine('the function that AWS runs', () => {
  const table = useTable()
  let folder: string

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'zael-bundle-'))
    const {code, stdout} = await run(process.execPath, ['.ci/bundle.js', folder], {})
    expect(code).toBe(0)
    expect(stdout).toMatch(/^aggregator\.mjs: \d+ KiB, sha256 [0-9a-f]{12}\n$/)
    await copyFile(join(ROOT, 'dist', 'chunks', 'aws-sdk.js'), join(folder, 'aws-sdk.mjs'))
  })
  afterAll(() => rm(folder, {recursive: true}))

  /** Invokes the bundle in a separate process; the last line of its output is the handler's response. */
  async function invoke(
    Records: readonly StreamRecord[],
    env: Record<string, string> = {},
    {program = process.execPath, leftMs = 60_000} = {},
  ): Promise<Outcome> {
    const bundle = pathToFileURL(join(folder, 'aggregator.mjs')).href
    const caller = join(folder, 'call.mjs')
    await writeFile(
      caller,
      `const {handler} = await import(${JSON.stringify(bundle)})
      const context = {getRemainingTimeInMillis: () => ${leftMs}}
      const response = await handler(${JSON.stringify({Records})}, context)
      console.log(JSON.stringify({response}))`,
    )
    const connection = {AWS_ENDPOINT_URL_DYNAMODB: inject('engineEndpoint'), TABLE_NAME: table.name}
    const quiet = {AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true'}
    return run(program, [caller], {cwd: folder, env: {...connection, ...quiet, ...env}})
  }

  const linesOf = ({stdout}: Outcome) =>
    stdout
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line))

  it('is the same file after every build', async () => {
    const hash = async () =>
      createHash('sha256')
        .update(await readFile(join(folder, 'aggregator.mjs')))
        .digest('hex')
    const first = await hash()
    await run(process.execPath, ['.ci/bundle.js', folder], {})
    expect(await hash()).toBe(first)
  })

  it('counts usage in a real table, and prints a log line and metrics', async () => {
    const outcome = await invoke([streamRecord(undefined, bucketImage({namespace: 'ok', tc: {tpm: 7000}, rq: 2}))])
    expect(outcome).toMatchObject({code: 0, stderr: ''})
    const [log, metrics, last] = linesOf(outcome)
    expect(log).toMatchObject({level: 'info', message: 'batch', records: 1, snapshots: 3, errors: 0})
    expect(metrics).toMatchObject({
      _aws: {CloudWatchMetrics: [{Namespace: 'zael', Dimensions: [['Stack']]}]},
      Stack: table.name,
      Records: 1,
      Snapshots: 3,
      RefusedRequests: 0,
      Refills: 0,
      Splits: 0,
      Archived: 0,
      Errors: 0,
      MalformedRecords: 0,
      UncountedRecords: 0,
    })
    const named = metrics._aws.CloudWatchMetrics[0].Metrics.map(({Name}: {Name: string}) => Name)
    for (const name of named) expect(metrics[name]).toEqual(expect.any(Number))
    expect(metrics.LagMs).toBeGreaterThan(Date.UTC(2026, 0) - NOON_MS)
    expect(last).toEqual({response: {batchItemFailures: []}})
    expect((await usageOf(table, 'ok'))['hourly 2023-11-14T12:00:00Z']).toEqual({tpm: 7, events: 2})
  })

  it.each(RUNTIMES)('runs on %s', async runtime => {
    const major = /^nodejs(\d+)\.x$/.exec(runtime)?.[1] ?? ''
    const node = await run(process.execPath, ['.ci/node.js', major], {})
    expect(node).toMatchObject({code: 0, stderr: ''})
    const program = node.stdout.trim()
    expect((await run(program, ['--version'], {})).stdout).toMatch(new RegExp(`^v${major}\\.`))
    const image = bucketImage({namespace: runtime, tc: {tpm: 7000}, rq: 2})
    const outcome = await invoke([streamRecord(undefined, image)], {}, {program})
    expect(outcome).toMatchObject({code: 0, stderr: ''})
    expect(linesOf(outcome).at(-1)).toEqual({response: {batchItemFailures: []}})
    expect((await usageOf(table, runtime))['hourly 2023-11-14T12:00:00Z']).toEqual({tpm: 7, events: 2})
  })

  it('marks the table as having an aggregator that Python clients can rely on', async () => {
    const version = {schemaVersion: '0.9.0', lambdaVersion: undefined, clientMinVersion: '0.0.0', updatedAt: ''}
    const Item = encodeVersion({...version, updatedBy: 'zael:0.1.0'})
    await table.transport.send('PutItem', {TableName: table.name, Item})
    expect(linesOf(await invoke([]))).toHaveLength(3)
    const Key = {PK: Item.PK, SK: Item.SK} as Item
    const {Item: marked} = await table.transport.send('GetItem', {TableName: table.name, Key, ConsistentRead: true})
    expect(marked).toEqual({...Item, lambda_version: {S: AGGREGATOR_MARK}})
  })

  it('reports failed records by sequence number', async () => {
    const record = streamRecord(undefined, bucketImage({namespace: 'lost', tc: {tpm: 7000}}), {sequence: 4711})
    const outcome = await invoke([record], {TABLE_NAME: 'no-such-table'})
    const lines = linesOf(outcome)
    expect(lines.at(-1)).toEqual({response: {batchItemFailures: [{itemIdentifier: '4711'}]}})
    expect(lines[0]).toMatchObject({level: 'error', message: 'usage failed', code: 'table.missing'})
    expect(lines.at(-2)).toMatchObject({level: 'warn', message: 'the version record was not updated'})
  })

  it('returns uncounted records before its time runs out', async () => {
    const record = streamRecord(undefined, bucketImage({namespace: 'late', tc: {tpm: 7000}}), {sequence: 4712})
    const lines = linesOf(await invoke([record], {}, {leftMs: 0}))
    expect(lines[0]).toMatchObject({level: 'warn', message: 'the run reached its time limit', redelivered: 1})
    expect(lines.at(-1)).toEqual({response: {batchItemFailures: [{itemIdentifier: '4712'}]}})
    expect(await usageOf(table, 'late')).toEqual({})
  })

  it('does not start with an invalid setting', async () => {
    const {code, stderr} = await invoke([], {SNAPSHOT_WINDOWS: 'hourly,weekly'})
    expect(code).toBe(1)
    expect(stderr).toContain('SNAPSHOT_WINDOWS is "hourly,weekly"; it must be some of hourly, daily, monthly')
  })

  it('archives to S3', async () => {
    const received: {method: string | undefined; url: string; body: Buffer}[] = []
    const s3 = createServer((request, response) => {
      const chunks: Buffer[] = []
      request.on('data', chunk => chunks.push(chunk))
      request.on('end', () => {
        received.push({method: request.method, url: decodeURIComponent(request.url ?? ''), body: Buffer.concat(chunks)})
        response.end()
      })
    })
    await new Promise<void>(resolve => s3.listen(0, '127.0.0.1', resolve))
    try {
      const {port} = s3.address() as AddressInfo
      const event = encodeAudit({
        ...{namespace: 'ns', entity: 'user-1', eventId: 'A', timestamp: '2023-08-16T11:12:13Z', action: 'limits_set'},
        ...{principal: undefined, resource: undefined, details: {}, ttlSeconds: 1},
      })
      const outcome = await invoke([streamRecord(event, undefined, {byService: true})], {
        ENABLE_ARCHIVAL: 'true',
        ARCHIVE_BUCKET_NAME: 'archive',
        AWS_ENDPOINT_URL_S3: `http://127.0.0.1:${port}`,
        AWS_REGION: 'us-east-1',
        AWS_ACCESS_KEY_ID: 'local',
        AWS_SECRET_ACCESS_KEY: 'local',
      })
      expect(linesOf(outcome).at(-1)).toEqual({response: {batchItemFailures: []}})
      expect(received).toMatchObject([{method: 'PUT', url: expect.stringMatching(/^\/archive\/audit\/year=2023\//)}])
      // The SDK sends the body in signed chunks; the gzip stream is in it.
      expect(received[0]?.body.includes(Buffer.from([0x1f, 0x8b, 0x08]))).toBe(true)
    } finally {
      await new Promise(resolve => s3.close(resolve))
    }
  })
})
