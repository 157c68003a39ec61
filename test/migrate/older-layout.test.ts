import {beforeAll, describe, expect, it} from 'vitest'
import {Denied} from '../../src/lib/dynamo/errors.js'
import {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {Namespaces} from '../../src/lib/repository/namespaces/namespaces.js'
import {Repository} from '../../src/lib/repository/repository.js'
import {s} from '../../src/lib/schema/attribute-value.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {describeOnEngine, type useTable} from '../helpers/table.js'
import {Interceptor} from '../repository/namespace-table.js'
import {makePopulation} from './fixtures/make-population.js'
import {writeGeneration, writeItems} from './fixtures/old-table.js'
import {useOldTable} from './use-old-table.js'

const population = makePopulation({entities: 1})

describeOnEngine('a table of an older layout is refused', () => {
  describe.each([1, 2, 3, 4, 5] as const)('generation %i', generation => {
    const {name: stack, transport} = useOldTable(generation, population.nowMs)
    beforeAll(() => writeGeneration({name: stack, transport}, generation, population))

    const refusal = expect.objectContaining({
      code: 'schema.needs-migration',
      kind: 'conflict',
      hint: 'Migrate the table.',
    })

    it('by the repository', async () => {
      await expect(new Repository({stack, transport}).namespace()).rejects.toEqual(refusal)
    })

    it('by the limiter, which would start every bucket full', async () => {
      const limiter = new RateLimiter({stack, transport})
      await expect(limiter.acquire({entity: 'user-1', resource: 'gpt-4', consume: {rpm: 1}})).rejects.toEqual(refusal)
    })
  })
})

describeOnBoth('a namespace that does not exist', {}, table => {
  const stack = table.name

  it('is missing in a table of the current layout, with or without a version record', async () => {
    const missing = {code: 'namespace.missing', kind: 'notFound'}
    await expect(new Repository({stack, transport: table.transport}).namespace('acme')).rejects.toMatchObject(missing)
    const version = {PK: s('_/SYSTEM#'), SK: s('#VERSION'), schema_version: s('0.9.0')}
    // A migrated table may have kept its old record.
    await writeItems(table, [version, {PK: s('SYSTEM#'), SK: s('#VERSION'), schema_version: s('0.8.0')}])
    await expect(new Repository({stack, transport: table.transport}).namespace('acme')).rejects.toMatchObject(missing)
  })

  it('costs one more call than one that exists', async () => {
    const transport = new Interceptor(table.transport)
    const repository = new Repository({stack, transport})
    await new Namespaces(tableOf(table)).register('there')
    await repository.namespace('there')
    expect(transport.calls).toEqual(['GetItem', 'GetItem', 'GetItem'])
    await expect(repository.namespace('acme')).rejects.toThrow('acme')
    expect(transport.calls.slice(3)).toEqual(['GetItem', 'GetItem', 'GetItem', 'BatchGetItem'])
  })

  it('is not opened in a newer layout, and is opened in an older one once a migration has started', async () => {
    const {id} = (await new Namespaces(tableOf(table)).register('moving')).namespace
    const open = () => new Repository({stack, transport: table.transport}).namespace('moving')
    const version = (schema: string) => ({PK: s('_/SYSTEM#'), SK: s('#VERSION'), schema_version: s(schema)})
    await writeItems(table, [version('0.11.0')])
    await expect(open()).rejects.toMatchObject({code: 'schema.too-new', kind: 'conflict'})
    await writeItems(table, [version('0.8.0')])
    await expect(open()).rejects.toMatchObject({code: 'schema.needs-migration', kind: 'conflict'})
    await writeItems(table, [{PK: s('_/SYSTEM#'), SK: s('#MIGRATION'), run_id: s('1')}])
    await expect(open()).resolves.toMatchObject({id})
    await writeItems(table, [version('0.11.0')])
    await expect(open()).rejects.toMatchObject({code: 'schema.too-new'})
    await writeItems(table, [version('0.9.0')])
  })

  it('is not opened when a migration registers it while it is looked up', async () => {
    const transport = new Interceptor(table.transport)
    transport.before = async (_, input) => {
      if (!JSON.stringify(input).includes('#NAMESPACE#')) return
      await writeItems(table, [{PK: s('_/SYSTEM#'), SK: s('#MIGRATION'), run_id: s('1'), step: s('configuration')}])
    }
    const {id} = (await new Namespaces(tableOf(table)).register('soon')).namespace
    const open = () => new Repository({stack, transport}).namespace('soon')
    await expect(open()).rejects.toMatchObject({code: 'schema.migrating', kind: 'conflict'})
    transport.before = () => {}
    await writeItems(table, [{PK: s('_/SYSTEM#'), SK: s('#MIGRATION'), run_id: s('1'), step: s('data')}])
    await expect(open()).resolves.toMatchObject({id})
  })

  it('is opened by clients that may not read the version', async () => {
    const {id} = (await new Namespaces(tableOf(table)).register('tenant')).namespace
    const transport = new Interceptor(table.transport)
    transport.before = (operation, input) => {
      if (JSON.stringify(input).includes('#VERSION')) throw new Denied(operation, new Error('not allowed'))
    }
    await expect(new Repository({stack, transport}).namespace('tenant')).resolves.toMatchObject({id})
  })

  it('is missing too for clients that may not read the version', async () => {
    const transport = new Interceptor(table.transport)
    transport.before = operation => {
      if (operation === 'BatchGetItem') throw new Denied(operation, new Error('not allowed'))
    }
    const opened = new Repository({stack, transport}).namespace('acme')
    await expect(opened).rejects.toMatchObject({code: 'namespace.missing'})
  })
})

function tableOf({name, transport}: {name: string; transport: Interceptor | ReturnType<typeof useTable>['transport']}) {
  return {
    name,
    transport,
    clock: Date.now,
    randomBytes: (count: number) => crypto.getRandomValues(new Uint8Array(count)),
    backoff: {random: Math.random, sleep: async () => {}},
  }
}
