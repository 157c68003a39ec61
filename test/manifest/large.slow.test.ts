import {expect, it} from 'vitest'
import {applyPlan} from '../../src/lib/manifest/apply.js'
import {parseManifest} from '../../src/lib/manifest/parse.js'
import {planManifest} from '../../src/lib/manifest/plan.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {exportManifest, manifestOf, newNamespace} from './support.js'

/** 5,000 entities take a minute; the default run checks the same with fewer. */
const isFull = process.env.ZAEL_TEST_SIZE === 'full'
const ENTITIES = isFull ? 5000 : 150

const text = [
  'system: {on_unavailable: block, limits: {rpm: 1000/min}}',
  'resources: {gpt-4: {limits: {rpm: 100/min, tpm: 100k/min}}}',
  'entities:',
  '  org: {limits: {rpm: 50k/min}}',
  ...Array.from(
    {length: ENTITIES - 1},
    (_, at) => `  user-${at}: {parent: org, cascade: true, resources: {gpt-4: {limits: {rpm: ${at + 1}/min}}}}`,
  ),
].join('\n')

describeOnEngine('a manifest of many entities', () => {
  const table = useTable()

  it('is applied in a bounded number of calls, survives an interruption, and is complete after a second run', {
    timeout: 600_000,
  }, async () => {
    const {tenant, repository} = newNamespace(table)
    const {calls} = tenant.transport
    const figures: string[] = []
    const measured = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
      const before = calls.length
      const startMs = performance.now()
      const result = await work()
      const seconds = ((performance.now() - startMs) / 1000).toFixed(1)
      figures.push(`${what}: ${calls.length - before} calls, ${seconds} s`)
      return result
    }
    const manifest = await measured('parse', async () => manifestOf(text))
    const plan = await measured('plan', () => planManifest(repository, manifest))
    expect(plan.counts).toEqual({create: 2 * ENTITIES + 2, update: 0, delete: 0, adopt: 0, unchanged: 0})

    const stop = new AbortController()
    const half = Math.floor(plan.changes.length / 2)
    const first = await measured('first half', () =>
      applyPlan(repository, plan, {
        signal: stop.signal,
        onProgress: ({done}) => {
          if (done === half) stop.abort()
        },
      }),
    )
    expect(first).toMatchObject({outcome: 'interrupted', failures: [], recordFailure: undefined})
    expect(first.created).toBeLessThan(half + 8)
    expect(first.left).toBe(plan.changes.length - first.created)

    const rest = await planManifest(repository, manifest)
    expect(rest.changes).toHaveLength(first.left)
    const second = await measured('second half', () => applyPlan(repository, rest))
    expect(second).toMatchObject({outcome: 'complete', created: first.left, failures: [], left: 0})

    const after = await measured('plan again', () => planManifest(repository, manifest))
    expect(after).toMatchObject({changes: [], counts: {adopt: 0}})
    const exported = await measured('export', () => exportManifest(repository, 'test'))
    const again = await planManifest(repository, parseManifest(exported, {file: 'exported'}))
    expect(again).toMatchObject({changes: [], counts: {adopt: 0}})
    const emptied = await measured('delete all', async () =>
      applyPlan(repository, await planManifest(repository, manifestOf(''))),
    )
    expect(emptied).toMatchObject({outcome: 'complete', deleted: ENTITIES + 2})
    // A request reads a hundred keys, not one entity.
    const planning = Number(/: (\d+) calls/.exec(figures[1] ?? '')?.[1])
    expect(planning).toBeLessThanOrEqual(2 + Math.ceil((2 * ENTITIES + 2) / 100) + 2)
    if (isFull) process.stdout.write(`${figures.join('\n')}\n`)
  })
})
