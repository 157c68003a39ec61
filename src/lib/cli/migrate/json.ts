import type {MigrationPlan} from '../../migrate/plan.js'
import type {Survey} from '../../migrate/survey.js'
import {isSupported, PEER_FEATURES, type PeerFeature} from '../../schema/peer-features.js'
import {limitlessJson} from './limitless-presenter.js'
import type {MigratePlanResult, MigrateStatusResult} from './results.js'
import {NO_OLD_ITEMS} from './run-presenter.js'

const NO_ITEMS: MigrateStatusResult['current'] = {namespace: 0, ...NO_OLD_ITEMS, migration: 0, operation: 0}

export function statusJson(stack: string, survey: Survey, plan: MigrationPlan): MigrateStatusResult {
  const {items, bytes, old, current, unknown, conflicts, schema, missing, registersDefault, run, isRunning} = survey
  return {
    stack,
    pending: plan.isPending,
    items,
    bytes,
    schema: {recorded: schema.current ?? null, legacy: schema.legacy ?? null, accepted: schema.isAccepted},
    wire: {release: survey.release ?? null, features: featureCounts(survey)},
    missing: {
      indexes: missing.indexes,
      stream: missing.stream,
      expiry: missing.expiry,
      defaultNamespace: registersDefault,
    },
    old: old.map(({groups: _, ...row}): MigrateStatusResult['old'][number] => row),
    current: {...NO_ITEMS, ...current},
    unknown,
    conflicts,
    limitless: limitlessJson(survey.limitless),
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

function featureCounts({features}: Survey): MigrateStatusResult['wire']['features'] {
  const names = Object.keys(PEER_FEATURES) as PeerFeature[]
  return names.map(feature => {
    return {
      feature,
      since: PEER_FEATURES[feature].since,
      supported: isSupported(feature),
      items: features.get(feature) ?? 0,
    }
  })
}

export function migrationPlanJson(stack: string, {unknown, limitless}: Survey, plan: MigrationPlan): MigratePlanResult {
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
    limitless: limitlessJson(limitless),
    oldItems: plan.leftovers,
    unknownItems: unknown.items,
  }
}
