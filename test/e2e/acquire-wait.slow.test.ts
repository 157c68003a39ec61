import {expect, it} from 'vitest'
import {parseLimit} from '../../src/lib/core/limits/limit-text.js'
import {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {Repository} from '../../src/lib/repository/repository.js'
import {describeOnEngine, PATIENT_MS, useTable} from '../helpers/table.js'
import {tableCli} from './table-cli.js'

describeOnEngine('requests from the shell', () => {
  const table = useTable()
  const repository = new Repository({stack: table.name, transport: table.transport})
  const cli = tableCli(table)

  it('wait for room with --wait, and say so', async () => {
    await repository.namespaces.register('default')
    const namespace = await repository.namespace()
    // Longer than the command takes to ask for the first time, on any machine.
    await namespace.setLimits({level: 'resource', resource: 'slow'}, [parseLimit('rpm=1/8sec')])
    const limiter = new RateLimiter({stack: table.name, transport: table.transport, timeoutMs: PATIENT_MS})
    await (await limiter.acquire({entity: 'waiter', resource: 'slow', consume: {rpm: 1}})).commit()
    const {code, stdout, stderr} = await cli.run('acquire waiter slow rpm=1 --wait')
    expect({code, stderr}).toEqual({code: 0, stderr: expect.stringMatching(/^Waiting for \d/)})
    expect(stdout).toMatch(/^Admitted after \d.*: waiter was charged 1 rpm of slow\n/)
    const bucket = await namespace.buckets.find('waiter', 'slow')
    const [shard] = bucket?.shards ?? []
    expect(shard?.kind === 'bucket' && shard.record.state.limits.get('rpm')?.consumedMilli).toBe(2000n)
  })
})
