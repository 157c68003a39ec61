import {expect, it} from 'vitest'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import {RateLimitExceeded} from '../../../src/lib/limiter/refusal/errors.js'
import {Repository} from '../../../src/lib/repository/repository.js'
import {tableCli} from '../../e2e/table-cli.js'
import {describeOnEngine, PATIENT_MS, useTable} from '../../helpers/table.js'
import {totalOf} from '../../repository/namespace-table.js'

const CUSTOMER = '--entity cust-08 --resource batch'
/** Requests of each service before and after a change is made. */
const REQUESTS = 12

describeOnEngine('limits that are changed under traffic', () => {
  const table = useTable()
  const repository = new Repository({stack: table.name, transport: table.transport})
  const cli = tableCli(table)
  let spaces = 0

  /** Services that charge rpm and tpd until `stop`, and the outcomes of their requests. */
  const open = async () => {
    const namespace = `traffic-${++spaces}`
    await repository.namespaces.register(namespace)
    const tenant = await repository.namespace(namespace)
    await tenant.setLimits({level: 'resource', resource: 'batch'}, parseLimits(['rpm=50k/day', 'tpd=200k/day']))
    const made = {admitted: 0, refused: 0, unlimited: new Set<string>(), errors: [] as unknown[]}
    let isOver = false
    const serve = async () => {
      const connection = {stack: table.name, transport: table.transport, timeoutMs: PATIENT_MS, configCacheMs: 20}
      await using limiter = new RateLimiter({...connection, namespace})
      while (!isOver) {
        try {
          const lease = await limiter.acquire({entity: 'cust-08', resource: 'batch', consume: {rpm: 1, tpd: 5}})
          await lease.adjust({tpd: 1})
          for (const name of lease.unlimited) made.unlimited.add(name)
          await lease.commit()
          made.admitted++
        } catch (error) {
          if (error instanceof RateLimitExceeded) made.refused++
          else made.errors.push(error)
        }
      }
    }
    const services = [serve(), serve()]
    const more = async () => {
      const enough = made.admitted + made.refused + made.errors.length + REQUESTS
      while (made.admitted + made.refused + made.errors.length < enough) await new Promise(setImmediate)
    }
    const stop = async () => {
      isOver = true
      await Promise.all(services)
    }
    return {namespace, tenant, made, more, stop}
  }

  /** The services share the process, so the command's output may include their warnings. */
  const change = async (command: string) => expect((await cli.run(command)).code).toBe(0)

  it('cause no exception and lose no other limit when one is set for a customer', async () => {
    const {namespace, tenant, made, more, stop} = await open()
    try {
      await more()
      await change(`limits set ${CUSTOMER} tpd=400k/day -n ${namespace}`)
      await more()
    } finally {
      await stop()
    }
    expect(made).toMatchObject({refused: 0, errors: [], unlimited: new Set()})
    const bucket = await tenant.buckets.find('cust-08', 'batch')
    expect(totalOf(bucket, 'rpm', 'consumedMilli')).toBe(made.admitted)
    expect(totalOf(bucket, 'tpd', 'consumedMilli')).toBe(6 * made.admitted)
    expect(totalOf(bucket, 'tpd', 'capacityMilli')).toBe(400_000)
    expect(totalOf(bucket, 'rpm', 'capacityMilli')).toBe(50_000)
  })

  it('cause no exception when a limit is removed and set again, and the limit applies again', async () => {
    const {namespace, tenant, made, more, stop} = await open()
    try {
      await more()
      await change(`limits set ${CUSTOMER} tpd=400k/day --only --yes -n ${namespace}`)
      await more()
      await change(`limits set ${CUSTOMER} rpm=50k/day -n ${namespace}`)
      await more()
    } finally {
      await stop()
    }
    expect(made).toMatchObject({refused: 0, errors: [], unlimited: new Set(['rpm'])})
    const bucket = await tenant.buckets.find('cust-08', 'batch')
    expect(totalOf(bucket, 'tpd', 'consumedMilli')).toBe(6 * made.admitted)
    expect(totalOf(bucket, 'rpm', 'consumedMilli')).toBeGreaterThan(0)
  })
})
