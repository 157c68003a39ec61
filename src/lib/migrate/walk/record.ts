import {z} from 'zod'
import {ZaelError} from '../../core/errors.js'
import {describeIssues} from '../../core/text/text.js'
import type {Item} from '../../schema/attribute-value.js'
import {spellKey} from '../../schema/keys.js'
import {type MigrationRecord, migrationFields, migrationRecordKey, scanPosition} from '../../schema/migration-record.js'
import {storedJson} from '../records/stored-json.js'

const count = z.int().min(0)

const optionalText = z.string().optional()

/** Attributes that a newer version adds are ignored; those that older versions did not write have defaults. */
const recordSchema = z.object({
  runId: z.string().min(1),
  owner: z.string(),
  leaseUntilMs: count,
  step: z.string().min(1),
  position: storedJson
    .pipe(z.tuple([z.string().min(1), z.string().min(1)]))
    .transform(scanPosition)
    .optional(),
  pass: z.int().min(1).default(1),
  passWrites: count.default(0),
  counts: storedJson
    .pipe(z.record(z.string(), z.object({checked: count, written: count, expired: count, conflicts: count})))
    .default({}),
  startedAt: z.string(),
  finishedAt: optionalText,
  earlierFinishedAt: optionalText,
  failure: optionalText,
  verifiedAt: optionalText,
})

/** The migration record of a table; throws when it is damaged, because a run would continue at a wrong place. */
export function decodeMigration(item: Item): MigrationRecord {
  const {data, error} = recordSchema.safeParse(migrationFields(item))
  if (data) return {...ABSENT, ...data}
  const key = spellKey(migrationRecordKey)
  throw new ZaelError('failed', 'migrate.record', `The migration record is damaged: ${describeIssues(error.issues)}.`, {
    hint:
      `Nothing was changed. Make sure that no run is active, delete the item ${key}, and run zael migrate run: ` +
      'it starts at the first step, and copies nothing twice.',
    details: {key},
  })
}

const ABSENT = {
  position: undefined,
  finishedAt: undefined,
  earlierFinishedAt: undefined,
  failure: undefined,
  verifiedAt: undefined,
}
