import {afterAll, beforeAll, expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import type {Run} from '../../src/lib/limiter/run.js'
import {type NamespaceRepository, Repository} from '../../src/lib/repository/repository.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {tableCli} from './table-cli.js'

describeOnEngine('runs', () => {
  const table = useTable()
  const cli = tableCli(table)
  const seams = {stack: table.name, transport: table.transport}
  const repository = new Repository(seams)
  const limiter = new RateLimiter(seams)
  let namespace: NamespaceRepository
  let run: Run
  let sub: Run

  beforeAll(async () => {
    await repository.namespaces.register('default')
    namespace = await repository.namespace()
    await namespace.setLimits({level: 'resource', resource: 'llm'}, parseLimits(['usd=$50/month@UTC']))
    run = await limiter.delegate({entity: 'user-1', resource: 'llm', amounts: {usd: '$2'}, for: '1h', name: 'research'})
    await run.acquire({consume: {usd: 250_000}})
    sub = await run.delegate({amounts: {usd: '$0.50'}})
    await sub.acquire({consume: {usd: 100_000}})
  })
  afterAll(() => limiter.close())

  it('are listed, those that end first at the top', async () => {
    const {runs, next} = await cli.tell('run list')
    expect(next).toBeNull()
    expect(runs).toHaveLength(2)
    expect(runs.find(({id}: {id: string}) => id === run.id)).toMatchObject({
      ...{name: 'research', entity: 'user-1', resource: 'llm', endedAt: null, subRuns: [sub.id]},
      ...{granted: {usd: 2_000_000}, spent: {usd: 750_000}, left: {usd: 1_250_000}, ancestors: []},
    })
    const shown = await cli.show('run list', 200)
    expect(shown).toMatch(new RegExp(`\\n${run.id} +research +user-1 +llm +\\$2 usd +\\$0\\.75 usd +in `))
    const first = await cli.tell('run list --limit 1')
    expect(await cli.tell(`run list --limit 1 --cursor ${first.next}`)).toMatchObject({runs: [{}], next: null})
  })

  it('are shown', async () => {
    expect(await cli.show(`run show ${run.id}`, 160)).toMatch(
      new RegExp(
        `Run ${run.id}: research\\n +of +user-1 for llm\\n +granted +\\$2 usd\\n +spent +\\$0\\.75 usd\\n +left +\\$1\\.25 usd\\n +ends +in .*\\n +sub-runs +${sub.id}`,
      ),
    )
    expect(await cli.tell(`run show ${sub.id}`)).toMatchObject({entity: `zael.run:${run.id}`, left: {usd: 400_000}})
  })

  it('L2 refuse what they lack without a time to wait', async () => {
    const asked = `zael.run:${run.id} llm usd=$1.5`
    const acquired = await cli.run(`acquire ${asked} --dry-run --json`)
    expect(acquired.code).toBe(6)
    expect(JSON.parse(acquired.stdout)).toMatchObject({retryAfterMs: null, limits: [{retryAfterMs: null}]})
    const why = {retryAfterMs: null, clearsAt: null}
    expect(JSON.parse((await cli.run(`why ${asked} --json`)).stdout)).toMatchObject({...why, limits: [why]})
    expect(await cli.show(`bucket show zael.run:${run.id}`, 160)).toMatch(/\n +0 +usd +\$1\.25 .* never +0 %/)
  })

  it.each(['show', 'end --yes'])('exit with 3 if the run does not exist (run %s)', async command => {
    const {code, stderr} = await cli.run(`run ${command} nothing`)
    expect([code, stderr]).toEqual([3, expect.stringContaining('Run "nothing" does not exist.')])
  })

  it('L8 are not in the way: nothing else lists them, and verify finds nothing', async () => {
    expect(await cli.tell('entity list')).toMatchObject({entities: []})
    expect(await cli.run('verify --json')).toMatchObject({code: 0})
    expect(JSON.stringify(await cli.tell('limits list'))).not.toContain('zael.run')
  })

  it('are ended with their sub-runs, after confirmation', async () => {
    const {code, stderr} = await cli.run(`run end ${run.id}`)
    expect([code, stderr]).toEqual([2, expect.stringContaining('--yes')])
    const ended = await cli.tell(`run end ${run.id} --yes`)
    expect(ended).toMatchObject({wasEnded: false, spent: {usd: 350_000}, returned: {usd: 1_650_000}, lapsed: {usd: 0}})
    const again = await cli.tell(`run end ${run.id} --yes`)
    expect(again).toEqual({...ended, wasEnded: true})
    await expect(run.acquire({consume: {usd: 1}})).rejects.toMatchObject({code: 'run.ended'})
    await expect(sub.acquire({consume: {usd: 1}})).rejects.toMatchObject({code: 'run.ended'})
    const {events} = await cli.tell('audit list --action run_ended')
    expect(events).toMatchObject([{entity: 'user-1', resource: 'llm', details: {run: run.id}}])
    expect(await cli.tell('run list')).toMatchObject({runs: []})
    expect(await cli.tell('run list --ended')).toMatchObject({runs: [{id: sub.id}, {id: run.id}]})
    expect(await cli.run('verify --json')).toMatchObject({code: 0})
    expect(await cli.show(`run show ${run.id}`, 160)).toMatch(/returned +\$1\.65 usd\n +state +ended /)
  })
})
