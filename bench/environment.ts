import {randomBytes, randomUUID} from 'node:crypto'
import {parseLimits} from '../src/lib/core/limits/limit-text.js'
import {resolveConnection} from '../src/lib/dynamo/connection.js'
import {sleepMs} from '../src/lib/dynamo/retry.js'
import {createTable, loadTableDefinition} from '../src/lib/dynamo/table-definition.js'
import type {Transport} from '../src/lib/dynamo/transport.js'
import {createTransport} from '../src/lib/dynamo/transports/create.js'
import {RateLimiter} from '../src/lib/limiter/rate-limiter.js'
import type {RateLimiterOptions} from '../src/lib/limiter/request/options.js'
import {type EngineOptions, startEngine} from '../src/lib/local/engines/engine.js'
import type {TableSeams} from '../src/lib/repository/table/open-table.js'
import type {NamespaceTable} from '../src/lib/repository/table/table.js'
import {type ConfigScope, encodeConfig} from '../src/lib/schema/config-record.js'
import {encodeEntity} from '../src/lib/schema/entity-record.js'
import {encodeNamespaceById} from '../src/lib/schema/namespace-record.js'

export interface BenchEnvironment {
  readonly engineName: string
  /** False if the folder had a table. */
  readonly isNew: boolean
  readonly endpoint: string
  readonly enginePid: number
  readonly transport: Transport
  newTenant(): NamespaceTable
  limiter(tenant: NamespaceTable, options?: RateLimiterOptions & TableSeams): RateLimiter
  configure(tenant: NamespaceTable, scope: ConfigScope, ...limits: string[]): Promise<void>
  addEntity(tenant: NamespaceTable, entity: string, parent: string): Promise<void>
  chargeAllLevels(tenant: NamespaceTable): Promise<void>
  close(): Promise<void>
}

/** Reuses the table of the folder, if it has one. */
export async function openEnvironment(options: EngineOptions = {}): Promise<BenchEnvironment> {
  const engine = await startEngine(options)
  const transport = createTransport({
    connection: resolveConnection({endpointUrl: engine.endpoint}, {}),
    clock: Date.now,
  })
  const name = 'zael-bench'
  const {TableNames = []} = await transport.send('ListTables', {})
  const isNew = !TableNames.includes(name)
  if (isNew) await createTable(transport, await loadTableDefinition({tableName: name, stream: false}))
  const put = (Item: ReturnType<typeof encodeConfig>) => transport.send('PutItem', {TableName: name, Item})
  return {
    engineName: engine.name,
    isNew,
    endpoint: engine.endpoint,
    enginePid: engine.pid,
    transport,
    newTenant: () => ({
      name,
      transport,
      namespace: `b${randomUUID().slice(0, 8)}`,
      clock: Date.now,
      randomBytes,
      backoff: {random: Math.random, sleep: sleepMs},
    }),
    limiter: ({namespace}, options) =>
      new RateLimiter({
        stack: name,
        namespaceId: namespace,
        transport,
        onUnavailable: 'block',
        maxShards: 1,
        ...options,
      }),
    configure: async ({namespace}, scope, ...limits) => {
      const settings = {onUnavailable: undefined, auditRetentionDays: undefined}
      await put(encodeConfig({namespace, scope, limits: parseLimits(limits), ...settings}))
    },
    addEntity: async ({namespace}, entity, parent) => {
      const rest = {name: entity, cascade: true, metadata: {}, createdAt: '', version: 1}
      await put(encodeEntity({namespace, entity, parent, ...rest}))
    },
    chargeAllLevels: async ({namespace: id}) => {
      const record = {id, name: id, status: 'active', createdAt: '', deletedAt: undefined, levels: 'all'} as const
      await put(encodeNamespaceById(record))
    },
    close: async () => {
      await transport.close()
      await engine.stop()
    },
  }
}
