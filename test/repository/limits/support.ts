import {Provisioner, type SeenProvisioner} from '../../../src/lib/repository/limits/provisioner.js'
import {readAll} from '../../../src/lib/repository/table/query.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import type {Managed} from '../../../src/lib/schema/provisioner-record.js'
import {ranges} from '../../../src/lib/schema/ranges.js'
import {Interceptor, type TestTenant} from '../namespace-table.js'

/** Entities with such long ids that an item has room for twenty. */
export function manyManaged(count: number, prefix = 'user'): Managed {
  const ids = Array.from({length: count}, (_, at) => `${prefix}-${String(at).padStart(20_000, '0')}`)
  return {managesSystem: false, resources: ['gpt-4'], entities: new Map(ids.map(id => [id, ['_default_']]))}
}

/** In whatever order it is listed. */
export function listOf({managesSystem, resources, entities}: Managed): string[] {
  const own = [...entities].flatMap(([entity, list]) => list.map(resource => `${entity} ${resource}`))
  return [...(managesSystem ? ['system'] : []), ...resources, ...own].sort()
}

/** The view of a process that starts now. */
export const found = async (tenant: TestTenant): Promise<SeenProvisioner> => anotherOf(tenant).provisioner.get()

/** A second process on the same namespace, with its own transport. */
export function anotherOf(tenant: TestTenant): {tenant: TestTenant; provisioner: Provisioner} {
  const other: TestTenant = {...tenant, clock: () => tenant.nowMs, transport: new Interceptor(tenant.transport)}
  return {tenant: other, provisioner: new Provisioner(other)}
}

/** All parts in the table, whether named or not. */
export async function storedParts(tenant: TestTenant): Promise<Item[]> {
  const items: Item[] = []
  for await (const item of readAll(tenant, ranges.provisionerParts(tenant.namespace))) items.push(item)
  return items
}

/** Holds the requests of a process that match, until it is let go. */
export function hold(tenant: TestTenant, matches: (operation: string, input: object) => boolean) {
  let release = () => {}
  const released = new Promise<void>(resolve => {
    release = resolve
  })
  const reached = new Promise<void>(resolve => {
    tenant.transport.before = async (operation, input) => {
      if (!matches(operation, input as object)) return
      resolve()
      await released
    }
  })
  return {reached, release}
}
