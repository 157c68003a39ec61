import {setImmediate} from 'node:timers/promises'
import {afterEach, beforeAll, expect, inject, it, vi} from 'vitest'
import {SORT_KEYS} from '../../src/lib/live/model/model.js'
import {viewBucket} from '../../src/lib/repository/buckets/view.js'
import {Repository} from '../../src/lib/repository/repository.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {engineProxy} from './engine-proxy.js'
import {populate} from './populate.js'
import {RunningHere, RunningProcess, type RunningZael} from './running-zael.js'
import {schemaProblems} from './schemas.js'
import {tableCli} from './table-cli.js'

describeOnEngine('zael watch', () => {
  const table = useTable()
  const cli = tableCli(table)
  let repository: Repository
  const running = new Set<RunningZael>()

  const wordsAt = (endpoint: string, flags: string[]) => [
    ...['watch', '--stack', table.name, '--endpoint-url', endpoint],
    ...flags,
  ]
  function noted<T extends RunningZael>(zael: T): T {
    running.add(zael)
    return zael
  }
  const startAt = (endpoint: string, ...flags: string[]) => noted(new RunningHere(wordsAt(endpoint, flags)))
  const start = (...flags: string[]) => startAt(inject('engineEndpoint'), ...flags)
  const watched = (...flags: string[]) => start(...flags).ended
  const spawned = (...flags: string[]) => noted(new RunningProcess(wordsAt(inject('engineEndpoint'), flags)))

  /** From here on, timers of the next poll and the end advance only by hand. */
  const stopTimers = () => vi.useFakeTimers({toFake: ['setTimeout', 'clearTimeout']})

  /** Lets time pass until the command has ended. */
  async function outlast(zael: RunningZael) {
    let outcome: Awaited<RunningZael['ended']> | undefined
    void zael.ended.then(ended => {
      outcome = ended
    })
    while (!outcome) {
      await vi.advanceTimersByTimeAsync(100)
      await setImmediate()
    }
    return outcome
  }

  afterEach(async () => {
    vi.useRealTimers()
    const left = [...running]
    running.clear()
    for (const zael of left) await zael.stop('SIGTERM')
  })

  beforeAll(async () => {
    await populate(table)
    repository = new Repository({stack: table.name, transport: table.transport})
  })

  it('prints a table with --once', async () => {
    expect(await cli.show('watch --once', 80)).toMatchInlineSnapshot(`
      "STATUS  ENTITY  RESOURCE  LIMIT  LEVEL  CAPACITY  LEFT  REFUSED  LAST REFUSED
      over    user-1  gpt-4     rpm      -20       100    0%        0             -
      ok      user-2  gpt-4     rpm       60       100   60%        0             -
      ok      user-2  search    rpm       60        60  100%        0             -

      3 buckets, 1 over, 0 near, 1 in debt; 5.5 read units
      "
    `)
    expect(await cli.show('watch --once --resource gpt-4 --sort entity --top 1', 120)).toMatchInlineSnapshot(`
      "STATUS  ENTITY  RESOURCE  LIMIT  LEVEL  CAPACITY  LEFT  DEBT  REFILL/S  REFUSED  LAST REFUSED  SHARDS
      over    user-1  gpt-4     rpm      -20       100    0%    20      1.67        0             -       2

      1 of 2 buckets, 1 over, 0 near, 1 in debt; 5 read units
      "
    `)
    expect(await cli.show('watch --once --entity idle', 80)).toMatchInlineSnapshot(`
      "No buckets: nothing was consumed yet, or all have expired.
      "
    `)
  })

  it('reads twice to sort by a rate with --once, and shows the rate', async () => {
    const {stdout, stderr} = await watched('--once', '--sort', 'rate', '--interval', '500ms')
    expect(stderr).toBe('')
    const [titles, ...rows] = stdout.split('\n')
    expect(titles).toMatch(/ REFILL\/S +rpm\/S +EMPTY IN +WRITES +REFUSED /)
    expect(rows[0]).toMatch(/^over +user-1 +gpt-4 +rpm .* 1\.67 +0 +<1s +0% +0 /)
    expect(stdout).toContain('; 7.5 read units\n')
  })

  it('prints a row per bucket as CSV, with plain numbers in columns for each limit', async () => {
    const {code, stdout, stderr} = await watched('--once', '--sort', 'entity', '--output', 'csv')
    expect({code, stderr}).toEqual({code: 0, stderr: ''})
    expect(stdout).toMatchInlineSnapshot(`
      "entity,resource,status,refused-by,limit,level-rpm,level-tpm,capacity-rpm,capacity-tpm,used-per-second-rpm,used-per-second-tpm,empty-in-ms,refused,refused-by-parent,refused-by-provider,last-refused,write-pressure,shards
      user-1,gpt-4,over,entity,rpm,-20,9880,100,10000,,,0,0,0,0,,0,2
      user-2,gpt-4,ok,,rpm,60,9960,100,10000,,,,0,0,0,,0,1
      user-2,search,ok,,rpm,60,,60,,,,,0,0,0,,0,1
      "
    `)
  })

  it("L6 prints the repository's figures of one instant with --once --json", async () => {
    const result = await watched('--once', '--json')
    expect(result.code).toBe(0)
    const document = JSON.parse(result.stdout)
    expect(schemaProblems('watch', document)).toEqual([])
    const tenant = await repository.namespace()
    for (const bucket of document.buckets) {
      const stored = await tenant.buckets.find(bucket.entity, bucket.resource)
      if (!stored) throw new Error('no such bucket')
      const view = viewBucket(stored, Date.parse(document.at))
      expect(bucket).toMatchObject({limits: view.limits, shardCount: view.shardCount})
    }
    expect(document).toMatchObject({
      known: {count: 3, isComplete: true},
      sampled: false,
      totals: {buckets: 3, over: 1, inDebt: 1, shards: 4},
      worst: {entity: 'user-1', limit: 'rpm', status: 'over'},
    })
  })

  it('prints one line per poll and a closing one', async () => {
    const zael = start('--interval', '500ms')
    await zael.until(/\n.*\n/)
    const {code, stdout, stderr} = await zael.stop('SIGINT')
    expect({code, stderr}).toEqual({code: 130, stderr: ''})
    const lines = stdout.trimEnd().split('\n')
    expect(lines.length).toBeGreaterThanOrEqual(3)
    expect(lines[0]).toMatch(
      /^\S+Z {2}3 buckets, 1 over, 0 near, 1 in debt {2}worst user-1 gpt-4 -20 of 100 rpm \(0%\) {2}[\d.]+ read units$/,
    )
    expect(lines[1]).toContain('rpm 0/s, tpm 0/s')
    expect(lines.at(-1)).toMatch(
      /^Watched 3 buckets for \d+ s, \d+ polls, [\d.]+ read units; 1 over, 0 near at the end\.$/,
    )
  })

  it('prints only one document per line with --json', async () => {
    const zael = start('--interval', '500ms', '--json', '--top', '2')
    await zael.until(/\n.*\n/)
    const {code, stdout, stderr} = await zael.stop('SIGINT')
    expect({code, stderr}).toEqual({code: 130, stderr: ''})
    const documents = stdout
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line))
    expect(documents.length).toBeGreaterThanOrEqual(2)
    expect(documents.flatMap(each => schemaProblems('watch', each))).toEqual([])
    expect(documents.map(({poll}) => poll)).toEqual(documents.map((_, at) => at + 1))
    expect(documents[0].buckets).toHaveLength(2)
    expect(documents[1].buckets[0]).toMatchObject({entity: 'user-1', ratePerSecond: 0})
    expect(documents[1].buckets[0].limits).toMatchObject([
      {name: 'rpm', ratePerSecond: 0},
      {name: 'tpm', ratePerSecond: 0},
    ])
  })

  it('applies --filter to every line, and shows the total', async () => {
    const zael = start('--filter', 'search')
    await zael.until(/\n/)
    const {stdout} = await zael.stop('SIGINT')
    const lines = stdout.trimEnd().split('\n')
    expect(lines[0]).toContain('  1 of 3 buckets, 0 over, 0 near  ')
    expect(lines.at(-1)).toMatch(/^Watched 1 of 3 buckets for /)
  })

  it('ends after --for, even while the first poll is pending', async () => {
    stopTimers()
    const zael = start('--for', '20s', '--interval', '1min')
    await zael.until(/\n/)
    const result = await outlast(zael)
    expect(result).toMatchObject({code: 0, stderr: ''})
    expect(result.stdout).toMatch(/^Watched 3 buckets for /m)
    await using proxy = await engineProxy(inject('engineEndpoint'), () => 'unanswered')
    for (const flags of [[], ['--once']]) {
      const {code, stdout, stderr} = await outlast(startAt(proxy.endpoint, '--for', '3s', ...flags))
      expect({code, stdout}).toEqual({code: 1, stdout: ''})
      expect(stderr).toContain('The command timed out (--for 3sec).')
    }
  })

  // The others read twice as `rate` does, and are ordered as in test/live/model/rank.test.ts.
  it.each(SORT_KEYS.filter(key => key !== 'empty' && key !== 'pressure'))(
    '--sort %s goes in both directions',
    async sort => {
      const order = async (...flags: string[]) => {
        const {code, stdout} = await watched('--once', '--json', '--sort', sort, '--interval', '500ms', ...flags)
        expect(code).toBe(0)
        return JSON.parse(stdout).buckets.map(
          (bucket: {entity: string; resource: string}) => `${bucket.entity} ${bucket.resource}`,
        )
      }
      const forwards = await order()
      const backwards = await order('--reverse')
      expect(backwards.toSorted()).toEqual(forwards.toSorted())
      const byName = {entity: ['user-1 gpt-4', 'user-2 gpt-4'], resource: ['user-1 gpt-4', 'user-2 search']}
      if (sort === 'entity' || sort === 'resource') {
        const [first, last] = byName[sort]
        expect(forwards[0]).toBe(first)
        expect(backwards[0]).toBe(last)
      }
    },
  )

  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('%s ends it with a closing line and exit code %i', async (signal, exitCode) => {
    const zael = spawned('--interval', '500ms')
    await zael.until(/\n/)
    const {code, stdout, stderr} = await zael.stop(signal)
    expect({code, stderr}).toEqual({code: exitCode, stderr: ''})
    expect(stdout.trimEnd().split('\n').at(-1)).toMatch(/^Watched 3 buckets/)
  })

  it('ends when its reader is gone', async () => {
    const zael = spawned('--interval', '500ms')
    await zael.until(/\n/)
    zael.stopReading()
    expect((await zael.ended).code).toBe(0)
  })

  it('continues with its last data while the table is unavailable, and says so', async () => {
    let isDown = false
    await using proxy = await engineProxy(inject('engineEndpoint'), () => (isDown ? 'cut' : 'answered'))
    const zael = startAt(proxy.endpoint, '--interval', '500ms')
    await zael.until(/\n/)
    isDown = true
    await zael.until(/DynamoDB did not answer.*; data is \S+ old\n/)
    isDown = false
    await zael.until(/old\n.*3 buckets/)
    expect((await zael.stop('SIGINT')).code).toBe(130)
  })

  it('fails if the first poll fails', async () => {
    const {code, stdout, stderr} = await startAt('http://127.0.0.1:9').ended
    expect({code, stdout}).toEqual({code: 1, stdout: ''})
    expect(stderr).toContain('DynamoDB did not answer')
  })

  it('names a missing resource, entity or namespace, with the nearest one', async () => {
    expect(await cli.fail('watch --resource gtp-4')).toMatchObject({
      code: 3,
      error: {code: 'resource.missing', hint: 'Did you mean "gpt-4"?'},
    })
    expect(await cli.fail('watch --once --entity user-l')).toMatchObject({
      code: 3,
      error: {code: 'entity.missing', hint: expect.stringContaining('Did you mean "user-1"')},
    })
    expect(await cli.fail('watch --namespace defalt')).toMatchObject({code: 3, error: {code: 'namespace.missing'}})
  })

  it('refuses bad input before it reads', async () => {
    expect(await cli.fail('watch --sort colour')).toMatchObject({code: 2, error: {code: 'watch.sort'}})
    expect(await cli.fail('watch --for 25d')).toMatchObject({code: 2, error: {code: 'watch.for'}})
    expect(await cli.fail('watch --resource a --entity b')).toMatchObject({code: 2})
    expect((await watched('--output', 'yaml')).code).toBe(2)
    for (const flags of ['', '--once', '--for 1s', '--once --top 1']) {
      expect(await cli.fail(`watch --actions ${flags}`)).toMatchObject({code: 2, error: {code: 'watch.actions'}})
    }
    const piped = await watched('--actions')
    expect([piped.code, piped.stdout]).toEqual([2, ''])
    expect(piped.stderr).toContain('--actions needs the live view on a terminal.')
    expect(piped.stderr).toContain('omit --once, --json and --output')
    expect(await watched('--output', 'csv')).toMatchObject({code: 2, stderr: expect.stringContaining('--once')})
  })
})
