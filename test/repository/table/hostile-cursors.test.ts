import {expect, it} from 'vitest'
import {verifyTable} from '../../../src/lib/insight/verify/verify.js'
import {HolderRecords} from '../../../src/lib/repository/buckets/holders.js'
import {Entities} from '../../../src/lib/repository/entities/entities.js'
import {Configs} from '../../../src/lib/repository/limits/configs.js'
import {configPage} from '../../../src/lib/repository/limits/limit-pages.js'
import {listRuns} from '../../../src/lib/repository/runs/runs.js'
import {type CursorKind, encodeCursor} from '../../../src/lib/repository/table/cursor.js'
import {Usage} from '../../../src/lib/repository/usage/usage.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newAudit, newTenant} from '../namespace-table.js'

const LENGTHS: Record<Exclude<CursorKind, 'buckets'>, readonly number[]> = {
  entities: [4],
  'entity-configs': [4],
  holders: [4],
  runs: [4],
  configs: [2, 3],
  'usage-of-entity': [2],
  'usage-of-resource': [3],
  'audit-of-entity': [2],
  audit: [1],
  verify: [2],
}

describeOnBoth('a forged cursor', {}, table => {
  it('is refused, or continues the listing in its own namespace, and never fails in the engine', async () => {
    const tenant = newTenant(table)
    const {namespace} = tenant
    const audit = newAudit(tenant)
    const configs = new Configs(tenant, {audit})
    const entities = new Entities(tenant, {audit})
    const usage = new Usage(tenant)
    const readers: Record<keyof typeof LENGTHS, (cursor: string) => Promise<unknown>> = {
      entities: cursor => entities.list({cursor}),
      'entity-configs': cursor => configs.entities('gpt-4', {cursor}),
      holders: cursor => new HolderRecords(tenant).list({cursor}),
      runs: cursor => listRuns(tenant, {cursor}),
      configs: cursor => configPage(configs, {}, {cursor}),
      'usage-of-entity': cursor => usage.ofEntity('a', {resource: 'gpt-4', cursor}),
      'usage-of-resource': cursor => usage.ofResource('gpt-4', {cursor}),
      'audit-of-entity': cursor => audit.list({entity: 'a', cursor}),
      audit: cursor => audit.listAll({cursor}),
      verify: cursor => verifyTable(tenant, {cursor}),
    }
    const parts = ['', 'x', namespace, `${namespace}/`, `${namespace}/ENTITY#a`, '#', '~', '\0', 'é'.repeat(3000)]
    for (const [kind, lengths] of Object.entries(LENGTHS) as [keyof typeof LENGTHS, readonly number[]][]) {
      for (const length of lengths) {
        for (let at = 0; at < parts.length * length; at++) {
          const key = Array.from(
            {length},
            (_, index) => parts[(at + index * Math.floor(at / parts.length)) % parts.length] ?? '',
          )
          if (kind === 'configs') key[0] = length === 2 ? 'resource' : 'entity'
          const outcome = await readers[kind](encodeCursor(kind, key)).then(
            () => 'read',
            error => error.code,
          )
          expect
            .soft(['read', 'page.cursor'], `${kind} ${JSON.stringify(key).slice(0, 200)}: ${outcome}`)
            .toContain(outcome)
        }
      }
    }
  })
})
