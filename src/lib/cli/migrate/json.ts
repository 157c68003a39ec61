import type {MigrationPlan} from '../../migrations/plan.js'
import type {CurrentRecordType} from '../../migrations/records/classify.js'
import type {Survey} from '../../migrations/survey.js'

const CURRENT_TYPES: readonly CurrentRecordType[] = [
  'namespace',
  'entity',
  'limits',
  'settings',
  'registry',
  'bucket',
  'usage',
  'audit',
  'version',
  'migration',
]

/** `migrate status` in JSON. */
export function statusJson(stack: string, survey: Survey, plan: MigrationPlan): object {
  const {items, bytes, old, current, unknown, conflicts, schema, missing, registersDefault, run, isRunning} = survey
  return {
    stack,
    pending: plan.isPending,
    items,
    bytes,
    schema: {recorded: schema.current ?? null, legacy: schema.legacy ?? null, accepted: schema.isAccepted},
    missing: {...missing, defaultNamespace: registersDefault},
    old: old.map(({groups: _, ...row}) => row),
    current: Object.fromEntries(CURRENT_TYPES.map(type => [type, current[type] ?? 0])),
    unknown,
    conflicts,
    run: run
      ? {
          owner: run.owner,
          running: isRunning,
          step: run.step,
          pass: run.pass,
          startedAt: run.startedAt,
          finishedAt: run.finishedAt ?? null,
          failure: run.failure ?? null,
        }
      : null,
  }
}

/** `migrate plan` in JSON. */
export function migrationPlanJson(stack: string, {unknown}: Survey, plan: MigrationPlan): object {
  return {
    stack,
    pending: plan.isPending,
    steps: plan.steps.map(({id, title, isPending, items, readUnits, writeUnits}) => ({
      id,
      title,
      pending: isPending,
      items,
      readUnits,
      writeUnits,
    })),
    items: plan.items,
    conflicts: plan.conflicts,
    readUnits: plan.readUnits,
    writeUnits: plan.writeUnits,
    writeUnitsPerSecond: plan.writeUnitsPerSecond,
    seconds: plan.seconds,
    blockers: plan.blockers,
    oldItems: plan.leftovers,
    unknownItems: unknown.items,
  }
}
