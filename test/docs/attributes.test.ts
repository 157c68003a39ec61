import {readFileSync} from 'node:fs'
import {fileURLToPath} from 'node:url'
import {expect, it} from 'vitest'
import {attributes} from '../../src/lib/schema/attributes.js'
import {slotsAttribute} from '../../src/lib/schema/config-limits.js'
import {KIND_SUFFIXES} from '../../src/lib/schema/kind-attributes.js'

const page = readFileSync(fileURLToPath(new URL('../../docs/from-python.md', import.meta.url)), 'utf8')

/** Attributes that zae-limiter 0.17 stores in records that both clients write. */
const PYTHON = {
  bucket: 'entity_id resource rf shard_count cascade parent_id ttl disabled bypass vu sched rsched sched_tz pgen pinc',
  limit: 'sched rsched rsa ws wa wtc gc tu rn soft',
  config: 'config_version entity_id resource on_unavailable audit_retention_days disabled cascade sched_tz',
  operation: 'entity_id resource operation writer ent shards amounts ttl',
  provisioner: 'managed_system managed_resources managed_entities last_applied applied_hash',
  usage: 'entity_id resource window window_start total_events ttl',
}

const added = (names: readonly string[], python: string): string[] => {
  const known = new Set(python.split(' '))
  return names.filter(name => !known.has(name))
}

it('from-python.md lists every attribute that zael adds to records of zae-limiter', () => {
  const {bucket, config, operation, provisioner, usage, refusals, feedback, migration} = attributes
  const {requests, tokens, byParent, lastAt} = refusals
  const names = [
    ...added(Object.values(bucket), PYTHON.bucket),
    ...added(KIND_SUFFIXES, PYTHON.limit).map(field => `b_{limit}_${field}`),
    ...[requests, tokens].map(name => `${name}_{limit}`),
    `${feedback.told}_{limit}`,
    byParent,
    lastAt,
    migration.mark,
    ...added(Object.values(config), PYTHON.config),
    slotsAttribute('{limit}'),
    ...added(Object.values(operation), PYTHON.operation),
    ...added(Object.values(provisioner), PYTHON.provisioner),
    ...added(Object.values(usage), PYTHON.usage),
  ]
  expect(names.length).toBeGreaterThan(12)
  expect(names.filter(name => !page.includes(`\`${name}\``))).toEqual([])
})
