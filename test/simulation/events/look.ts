import {ZaelError} from '../../../src/lib/core/errors.js'
import {verifyTable} from '../../../src/lib/insight/verify/verify.js'
import {RESOURCE} from '../scenario.js'
import type {Writer} from '../world/table-writes.js'
import {READERS} from '../world/world.js'
import type {Stage} from './stage.js'

const READER: Writer = {kind: 'reader', process: READERS}

/** L8: reads like read-only commands, under traffic. Any write is a violation. */
export async function look({world, oracles}: Stage, entity: string): Promise<void> {
  const repository = world.repository(READER)
  const tenant = repository.namespaceById(world.namespace)
  const looks: readonly (() => Promise<unknown>)[] = [
    () => repository.namespaces.list(),
    () => repository.namespaces.unregistered(),
    () => tenant.bucket({entity, resource: RESOURCE}),
    () => tenant.configs.resolve({entity, resource: RESOURCE}),
    () => tenant.configs.resources(),
    () => tenant.entities.list(),
    () => tenant.audit.list({entity}),
    () => tenant.usageTotals({entity}),
    () => verifyTable(world.table(READER)),
  ]
  for (const each of looks) {
    try {
      await each()
    } catch (error) {
      if (!(error instanceof ZaelError)) oracles.answers.failed(`look at ${entity}`, error)
    }
  }
}
