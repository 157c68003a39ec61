import {afterAll, expect, it} from 'vitest'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import {verifyTable} from '../../../src/lib/insight/verify/verify.js'
import {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import {RateLimitExceeded} from '../../../src/lib/limiter/refusal/errors.js'
import {splitBucket} from '../../../src/lib/repository/buckets/split.js'
import {Repository} from '../../../src/lib/repository/repository.js'
import {openTable} from '../../../src/lib/repository/table/open-table.js'
import {describeOnEngine, PATIENT_MS, useTable} from '../../helpers/table.js'

const RUNS = 20

describeOnEngine('a verification of a table under traffic', () => {
  const table = useTable()
  const options = {stack: table.name, transport: table.transport}
  const repository = new Repository(options)
  const limiters = Array.from({length: 3}, () => new RateLimiter({...options, timeoutMs: PATIENT_MS}))
  afterAll(async () => {
    for (const limiter of limiters) await limiter.close()
  })

  it(`finds no problem in ${RUNS} runs during requests, settlements and a split`, async () => {
    const {namespace} = await repository.namespaces.register('default')
    const tenant = repository.namespaceById(namespace.id)
    const resource = {level: 'resource', resource: 'gpt-4'} as const
    await tenant.setLimits(resource, ['rpm=600/min', 'tpm=100k/min'].map(parseLimit))
    await tenant.entities.create({id: 'team'})
    for (let at = 0; at < 4; at++) await tenant.entities.create({id: `user-${at}`, parent: 'team', cascade: true})

    let isOver = false
    const traffic = limiters.map(async (limiter, at) => {
      for (let turn = at; !isOver; turn++) {
        const request = {entity: `user-${turn % 4}`, resource: 'gpt-4', consume: {rpm: 1, tpm: 50}}
        const work = limiter.withLease(request, lease => lease.adjust({tpm: -20}))
        await work.catch(error => {
          if (!(error instanceof RateLimitExceeded)) throw error
        })
      }
    })
    const {table: bare} = openTable(options)
    const quick = {...bare, backoff: {...bare.backoff, sleep: (ms: number) => bare.backoff.sleep(Math.min(ms, 100))}}
    try {
      for (let run = 0; run < RUNS; run++) {
        if (run === 7) await splitBucket({...bare, namespace: namespace.id}, 'team', 'gpt-4', 1)
        const {findings, items} = await verifyTable(quick)
        expect(items).toBeGreaterThan(10)
        expect({run, findings: findings.map(({key, reason}) => `${key}: ${reason}`)}).toEqual({run, findings: []})
      }
    } finally {
      isOver = true
      await Promise.all(traffic)
    }
  })
})
