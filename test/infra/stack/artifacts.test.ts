import {createHash} from 'node:crypto'
import {mkdtemp, readFile, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {crc32} from 'node:zlib'
import {afterAll, beforeAll, describe, expect, inject, it} from 'vitest'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {lambdaPackage} from '../../../src/lib/infra/stack/artifacts.js'
import {zipOf} from '../../../src/lib/infra/stack/zip.js'
import {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import {Repository} from '../../../src/lib/repository/repository.js'
import {ROOT, run} from '../../e2e/zael.js'
import {describeOnEngine, PATIENT_MS, useTable} from '../../helpers/table.js'
import {capturedStream} from '../template/captured-stream.js'
import {passes} from '../template/event-filter.js'
import {stackWith} from '../template/stack-model.js'

const {AggregatorFunction, AggregatorEventSourceMapping} = stackWith().Resources

/** Reads a zip by its central directory, as unzip programs do. */
function unzipped(zip: Buffer): Map<string, {content: Buffer; mode: number}> {
  const end = zip.lastIndexOf('PK\x05\x06')
  const files = new Map<string, {content: Buffer; mode: number}>()
  let at = zip.readUInt32LE(end + 16)
  expect(at + zip.readUInt32LE(end + 12)).toBe(end)
  for (let left = zip.readUInt16LE(end + 10); left > 0; left--) {
    expect(zip.toString('latin1', at, at + 4)).toBe('PK\x01\x02')
    const [crc, packed, size] = [16, 20, 24].map(offset => zip.readUInt32LE(at + offset)) as [number, number, number]
    const nameLength = zip.readUInt16LE(at + 28)
    expect([zip.readUInt16LE(at + 10), packed]).toEqual([0, size])
    const name = zip.toString('utf8', at + 46, at + 46 + nameLength)
    const local = zip.readUInt32LE(at + 42)
    const start = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28)
    const content = zip.subarray(start, start + size)
    expect([content.length, crc32(content)]).toEqual([size, crc])
    files.set(name, {content, mode: zip.readUInt32LE(at + 38) >>> 16})
    at += 46 + nameLength
  }
  return files
}

describe('a zip', () => {
  it('contains files that every user may read', () => {
    const files = {'größe.mjs': Buffer.from('größer als nichts'), leer: Buffer.alloc(0)}
    const entries = Object.entries(files).map(([name, content]) => [name, {content, mode: 0o100644}])
    expect([...unzipped(zipOf(files))]).toEqual(entries)
  })

  it('C-13 has the same bytes for the same content at any time', () => {
    const sha256 = createHash('sha256')
      .update(zipOf({'index.mjs': Buffer.from('export {}\n')}))
      .digest('hex')
    expect(sha256).toMatchInlineSnapshot(`"d4d07133e2e3e882b2e332a48f7dccaeac854fb03daa07f0cfb4a386a92117be"`)
  })
})

describe('the package of the aggregator', () => {
  it('C-13 comes with zael: nothing is built or fetched to deploy it', async () => {
    const {zip, sha256Base64} = await lambdaPackage()
    const files: [string, string][] = [
      ['index.mjs', 'lambda/aggregator.mjs'],
      ['aws-sdk.mjs', 'chunks/aws-sdk.js'],
    ]
    const built = files.map(async ([name, path]) => [name, await readFile(join(ROOT, 'dist', path))])
    const packed = [...unzipped(zip)].map(([name, {content}]) => [name, content])
    expect(packed).toEqual(await Promise.all(built))
    expect(sha256Base64).toBe(createHash('sha256').update(zip).digest('base64'))
    expect(zip.length).toBeLessThan(950_000)
  })

  it('loads the SDK only when it needs it', async () => {
    const program = await readFile(join(ROOT, 'dist', 'lambda', 'aggregator.mjs'), 'utf8')
    expect(program).toContain('import("./aws-sdk.mjs")')
    expect(program).not.toMatch(/from\s*"\.\/aws-sdk/)
  })

  it('matches the handler of the template', async () => {
    const [file, name] = AggregatorFunction.Properties.Handler.split('.')
    expect([...unzipped((await lambdaPackage()).zip).keys()]).toContain(`${file}.mjs`)
    expect(name).toBe('handler')
  })
})

/** Acts like the Lambda runtime: loads the handler from the unpacked code and calls it with an event. */
const RUNTIME = `
import {readFile} from 'node:fs/promises'
const [file, name] = process.env._HANDLER.split('.')
const {[name]: handler} = await import('./' + file + '.mjs')
const answer = await handler(JSON.parse(await readFile(process.argv[2], 'utf8')))
console.log(JSON.stringify({answer}))
`

describeOnEngine('the package, started as Lambda starts it', () => {
  const table = useTable({stream: true})
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'zael-lambda-'))
    for (const [name, {content}] of unzipped((await lambdaPackage()).zip)) await writeFile(join(folder, name), content)
    await writeFile(join(folder, 'runtime.mjs'), RUNTIME)
  })
  afterAll(() => rm(folder, {recursive: true}))

  it('responds to a real event of the stream with the failures of the batch, and counts the usage', async () => {
    const open = {stack: table.name, transport: table.transport}
    const repository = new Repository(open)
    await repository.namespaces.register('default')
    const tenant = await repository.namespace()
    await tenant.setLimits({level: 'resource', resource: 'gpt-4'}, parseLimits(['tpm=10k']))
    const limiter = new RateLimiter({...open, timeoutMs: PATIENT_MS})
    for (const tpm of [5, 37]) await limiter.acquire({entity: 'user-1', resource: 'gpt-4', consume: {tpm}})
    await limiter.close()
    const patterns = AggregatorEventSourceMapping.Properties.FilterCriteria.Filters.map(
      ({Pattern}: {Pattern: string}) => Pattern,
    )
    const Records = (await capturedStream(table)).filter(record => passes(patterns, record))
    expect(Records.map(({eventName}) => eventName)).toEqual(['INSERT', 'MODIFY'])
    await writeFile(join(folder, 'event.json'), JSON.stringify({Records}))

    const {code, stdout} = await run(process.execPath, ['runtime.mjs', 'event.json'], {
      cwd: folder,
      env: {
        ...AggregatorFunction.Properties.Environment.Variables,
        _HANDLER: AggregatorFunction.Properties.Handler,
        TABLE_NAME: table.name,
        AWS_ENDPOINT_URL_DYNAMODB: inject('engineEndpoint'),
      },
    })
    expect(code).toBe(0)
    expect(JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '')).toEqual({answer: {batchItemFailures: []}})
    const {totalEvents, limits} = await tenant.usage.summary({entity: 'user-1', window: 'monthly'})
    expect(totalEvents).toBe(2)
    expect(limits.get('tpm')?.total).toBe(42)
  })
})
