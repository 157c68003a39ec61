import {execFile} from 'node:child_process'
import {mkdir, mkdtemp, readFile, rm, writeFile} from 'node:fs/promises'
import {join} from 'node:path'
import {promisify} from 'node:util'
import {afterAll, beforeAll, expect, inject, it} from 'vitest'
import {hashKey} from '../../src/lib/schema/hashed-name.js'
import {type BillingProvider, PRICE, startBillingProvider, TOKEN} from '../adapters/billing-provider.js'
import {Scene} from '../helpers/limiter.js'
import {ROOT} from '../helpers/run-command.js'
import {describeOnEngine, PATIENT_MS, useTable} from '../helpers/table.js'

const run = promisify(execFile)

/** The most lines of code that each may take, imports included. */
const TASKS = [
  ['10 requests per 10 seconds', 5],
  ['Wait for admission', 4],
  ['Dollars per key and month, with streams', 10],
  ['Tokens, with streams', 5],
  ['Fall back to another model', 6],
] as const

const KEY = 'sk-1'
const INPUT = 20

/** Uses what each task exports, and prints what happens. */
const MAIN = `import {RateLimiter} from 'zael'

const statuses = async (ask: () => Promise<Response> | Response, times: number) => {
  const found: number[] = []
  for (let at = 0; at < times; at++) found.push((await ask()).status)
  return found
}
const {app} = await import('./task-1.js')
app.get('/', c => c.text('ok'))
const first = await statuses(() => app.request('/', {headers: {'x-api-key': '${KEY}'}}), 11)

await using limiter = new RateLimiter({stack: 'prod', defaultLimits: ['rpm=60/min']})
await limiter.acquire({entity: 'user-1', resource: 'reports', consume: {rpm: 60}})
await import('./task-2.js')

const messages = [{role: 'user' as const, content: '${TOKEN.repeat(INPUT)}'}]
const body = {messages, max_tokens: 50, stream: true as const}
const {clientOf} = await import('./task-3.js')
const {client} = await import('./task-4.js')
const {client: withFallback} = await import('./task-5.js')
const read = async (stream: AsyncIterable<unknown>) => {
  for await (const _ of stream);
}
for (const model of ['gpt-4o', 'gpt-4o-mini']) await read(await clientOf('${KEY}').chat.completions.create({...body, model}))
await read(await client.chat.completions.create({...body, model: 'gpt-4o'}))
for (let at = 0; at < 3; at++) await read(await withFallback.chat.completions.create({...body, model: 'gpt-4o'}))
// Idle connections would keep the process running for seconds.
process.stdout.write(JSON.stringify(first), () => process.exit())
`

describeOnEngine('the five tasks of docs/adapters', () => {
  const table = useTable()
  let scene: Scene
  let provider: BillingProvider
  let folder: string
  let codes: string[]
  beforeAll(async () => {
    scene = new Scene(table)
    provider = await startBillingProvider()
    const page = await readFile(join(ROOT, 'docs/adapters/README.md'), 'utf8')
    codes = TASKS.map(([title]) => page.split(`\n### ${title}\n`)[1]?.match(/^\n```ts\n([\s\S]*?)^```/m)?.[1] ?? '')
    // Inside the package, so that `zael` is found by its own name, as it is in a project that has it installed.
    await mkdir(join(ROOT, '.cache'), {recursive: true})
    folder = await mkdtemp(join(ROOT, '.cache', 'five-tasks-'))
    const here = (code: string) =>
      code.replaceAll(
        "stack: 'prod'",
        `stack: '${table.name}', namespaceId: '${scene.namespace}', timeoutMs: ${PATIENT_MS}`,
      )
    // So slow that nothing comes back while the first task runs.
    const files = [MAIN, ...codes].map((code, at) => (at === 1 ? code.replace('/10s', '/day') : code))
    for (const [at, code] of files.entries())
      await writeFile(join(folder, at === 0 ? 'main.ts' : `task-${at}.ts`), `${here(code)}\nexport {}\n`)
    const [input_cost_per_token, output_cost_per_token] = [PRICE.input / 1e6, PRICE.output / 1e6]
    const prices = {input_cost_per_token, output_cost_per_token}
    await writeFile(join(folder, 'prices.json'), JSON.stringify({'gpt-4o': prices, 'gpt-4o-mini': prices}))
    const settings = {extends: '../../tsconfig.json', compilerOptions: {rootDir: '../..'}, include: ['*.ts']}
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(settings))
  })
  afterAll(async () => {
    await rm(folder, {recursive: true})
    await provider.close()
  })

  it('take few lines', () => {
    const lines = codes.map(code => code.split('\n').filter(line => line.trim() !== '').length)
    for (const [at, [title, most]] of TASKS.entries()) {
      expect(lines[at], title).toBeGreaterThan(1)
      expect(lines[at], title).toBeLessThanOrEqual(most)
    }
  })

  it('compile', async () => {
    const tsc = join(ROOT, 'node_modules', '.bin', 'tsc')
    await expect(run(tsc, ['--noEmit', '-p', folder]).catch(error => error.stdout)).resolves.toMatchObject({stdout: ''})
  })

  it('run, and charge what they promise', async () => {
    await scene.configure({level: 'resource', resource: 'gpt-4o'}, 'rpm=2/day', 'tpm=1M/min')
    const {PATH} = process.env
    const env = {
      PATH,
      AWS_ENDPOINT_URL_DYNAMODB: inject('engineEndpoint'),
      AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true',
      OPENAI_API_KEY: 'none',
      OPENAI_BASE_URL: `${provider.url}/v1`,
    }
    const {stdout, stderr} = await run(process.execPath, ['--import', 'tsx', 'main.ts'], {cwd: folder, env})
    expect(stderr).toBe('')
    expect(JSON.parse(stdout)).toEqual([...Array(10).fill(200), 429])
    const spent = async (entity: string, resource: string, limit: string) =>
      (await scene.totals(entity, resource, limit)).consumed
    expect(await spent('user-1', 'reports', 'rpm')).toBe(61)
    const [call] = provider.bills
    const tokens = INPUT + (call?.output ?? 0)
    expect(await spent(hashKey(KEY), 'models', 'usd')).toBe((provider.cost / provider.bills.length) * 2)
    expect(await spent('team-7', 'gpt-4o', 'tpm')).toBe(2 * tokens)
    expect(await spent('team-7', 'gpt-4o-mini', 'tpm')).toBe(2 * tokens)
  })
})
