import {expect, it} from 'vitest'
import {TransactionCancelled} from '../../src/lib/dynamo/errors.js'
import type {OperationInput, Transport} from '../../src/lib/dynamo/transport.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {newTenant} from '../repository/namespace-table.js'
import {apply, planLines} from './support.js'

/** As in AWS, and unlike local engines: a transaction is rejected while another one uses one of its items. */
class ContendedTransport implements Transport {
  rejected = 0
  readonly #inner: Transport
  readonly #held = new Set<string>()

  constructor(inner: Transport) {
    this.#inner = inner
  }

  readonly send: Transport['send'] = async (operation, input, options) => {
    if (operation !== 'TransactWriteItems') return this.#inner.send(operation, input, options)
    const {TransactItems = []} = input as OperationInput<'TransactWriteItems'>
    const keys = TransactItems.map(({Put, Update, Delete, ConditionCheck}) => {
      const {PK, SK} = Put?.Item ?? (Update ?? Delete ?? ConditionCheck)?.Key ?? {}
      return JSON.stringify([PK, SK])
    })
    if (keys.some(key => this.#held.has(key))) {
      this.rejected++
      const reasons = keys.map(key => ({
        code: this.#held.has(key) ? 'TransactionConflict' : 'None',
        message: undefined,
        oldItem: undefined,
      }))
      throw new TransactionCancelled(operation, reasons)
    }
    for (const key of keys) this.#held.add(key)
    try {
      return await this.#inner.send(operation, input, options)
    } finally {
      for (const key of keys) this.#held.delete(key)
    }
  }
}

describeOnBoth('entities that share a registry item and a parent', {}, table => {
  it('are all applied and deleted although transactions on the same item conflict', async () => {
    const transport = new ContendedTransport(table.transport)
    // Few attempts, so that some changes fail and are retried one at a time.
    const tenant = {...newTenant(table, {attempts: 3}), transport}
    const repository = new NamespaceRepository(tenant, 'tester')
    const members = Array.from({length: 60}, (_, at) => `  user-${at}: {parent: org, limits: {rpm: 1/min}}`)
    const text = `entities:\n  org: {limits: {rpm: 1/min}}\n${members.join('\n')}`
    expect(await apply(repository, text)).toMatchObject({outcome: 'complete', created: 122, failures: []})
    expect(transport.rejected).toBeGreaterThan(0)
    expect(await planLines(repository, text)).toEqual([])
    expect(await repository.configs.resourcesOfEntities()).toEqual(['_default_'])
    expect((await repository.configs.entities('_default_')).records).toHaveLength(61)
    expect(await apply(repository, '')).toMatchObject({outcome: 'complete', deleted: 61, failures: []})
    expect(await repository.configs.resourcesOfEntities()).toEqual([])
  })
})
