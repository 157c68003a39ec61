import {formatCount, formatPlural, formatSpan, shellWord} from '../../core/text/text.js'
import type {MigrationPlan, PlannedStep} from '../../migrate/plan.js'
import type {Survey} from '../../migrate/survey.js'
import {isSupported, PEER_FEATURES, type PeerFeature} from '../../schema/peer-features.js'
import {paint} from '../output/lines.js'
import {factLines, type NextCommand, nextLines, textTable} from '../output/text-table.js'
import {limitlessJson, limitlessLines} from './limitless-presenter.js'
import type {MigratePlanResult, MigrateStatusResult} from './results.js'
import {NO_OLD_ITEMS, OLD_KINDS, writeLimits} from './run-presenter.js'

export async function migrationStatusLines(
  stack: string,
  survey: Survey,
  plan: MigrationPlan,
  width: number | undefined,
): Promise<string[]> {
  const {items, old} = survey
  const oldItems = old.reduce((sum, row) => sum + row.items, 0)
  const title = `Stack "${stack}": ${formatPlural(items, 'item')}, ${formatCount(oldItems)} of them in older layouts`
  return [
    ...factLines(title, {
      recorded: recordedText(survey),
      missing: missingText(survey),
      records: releaseText(survey),
      'last run': runText(survey),
    }),
    ...(await oldLines(survey, width)),
    ...keyLines(
      conflictTitle(survey),
      survey.conflicts.map(({key, reason}) => `${key}: ${reason}`),
    ),
    ...keyLines(unknownTitle(survey), survey.unknown.keys),
    ...(await limitlessLines(survey.limitless, width)),
    '',
    verdict(plan),
    ...nextLines(statusNext(stack, survey, plan)),
  ]
}

export async function migrationPlanLines(
  stack: string,
  survey: Survey,
  plan: MigrationPlan,
  width: number | undefined,
): Promise<string[]> {
  const next = nextLines(planNext(stack, survey, plan))
  const limitless = await limitlessLines(survey.limitless, width)
  if (!plan.steps.some(step => step.isPending)) return [verdict(plan), ...limitless, ...next]
  const {steps, items, readUnits, writeUnits, seconds, writeUnitsPerSecond, blockers} = plan
  const table = await textTable(
    [{header: 'STEP'}, {header: 'DESCRIPTION'}, {header: 'ITEMS'}, {header: 'READ UNITS'}, {header: 'WRITE UNITS'}],
    steps.map(stepRow),
    {header: true, width},
  )
  const pace = `${formatCount(writeUnitsPerSecond)} write units per second`
  return [
    `Migration of stack "${stack}": ${formatPlural(items, 'item')} of older layouts to migrate`,
    '',
    ...table,
    '',
    `About ${formatCount(readUnits)} read units and ${formatCount(writeUnits)} write units, and more with traffic.`,
    `At ${pace} this takes about ${formatSpan(seconds * 1000)}.`,
    'Old items are kept until `zael migrate cleanup`.',
    ...keyLines(unknownTitle(survey), survey.unknown.keys),
    ...limitless,
    ...blockers.flatMap(({blocks, reason}) => ['', paint('red', `\`zael migrate ${blocks}\` is blocked: ${reason}.`)]),
    ...next,
  ]
}

function releaseText({release, features}: Survey): string | undefined {
  if (release === undefined) return undefined
  const refused = [...features.keys()].filter(feature => !isSupported(feature))
  const tail = refused.length === 0 ? '' : `; zael refuses records with ${refused.sort().join(', ')}`
  return `of zae-limiter ${release}${tail}`
}

function recordedText({schema: {current, legacy}}: Survey): string {
  if (current !== undefined) return `layout ${current}${legacy === undefined ? '' : ` (without namespaces: ${legacy})`}`
  return legacy === undefined ? 'no layout' : `layout ${legacy}, without namespaces`
}

function missingText({missing: {indexes, stream, expiry}, registersDefault}: Survey): string | undefined {
  const parts = [
    ...indexes.map(index => `index ${index}`),
    ...(stream ? ['stream'] : []),
    ...(expiry ? ['item expiry'] : []),
    ...(registersDefault ? ['namespace "default"'] : []),
  ]
  return parts.length === 0 ? undefined : parts.join(', ')
}

function runText({run, isRunning}: Survey): string | undefined {
  if (!run) return undefined
  if (isRunning) return `running since ${run.startedAt} by ${run.owner}, in step ${run.step}`
  if (run.finishedAt !== undefined) return `finished ${run.finishedAt}`
  return `stopped in step ${run.step}${run.failure === undefined ? '' : `: ${run.failure}`}`
}

async function oldLines({old}: Survey, width: number | undefined): Promise<string[]> {
  if (old.length === 0) return []
  const columns = ['RECORDS', 'RELEASES', 'GENERATION', 'ITEMS', 'PENDING', 'CONFLICTS', 'EXPIRED'] as const
  const rows = old.map(row => {
    const {items, pending, conflicts, expired} = row
    return [OLD_KINDS[row.type], row.releases, row.generation, items, pending, conflicts, expired]
  })
  const table = columns.map(header => ({header}))
  return ['', ...(await textTable(table, rows, {header: true, width}))]
}

const stepRow = ({id, title, isPending, items, readUnits, writeUnits}: PlannedStep) => [
  id,
  isPending ? title : 'nothing to do',
  items,
  readUnits,
  writeUnits,
]

function conflictTitle({conflicts, old}: Survey): string {
  const count = old.reduce((sum, row) => sum + row.conflicts, 0)
  return `${formatPlural(count, 'old item')} conflict with new records${shownOf(conflicts.length, count)}:`
}

function unknownTitle({unknown: {items, keys}}: Survey): string {
  return `${formatPlural(items, 'item')} of unknown format (unchanged)${shownOf(keys.length, items)}:`
}

const shownOf = (shown: number, all: number): string => (shown < all ? `, ${shown} shown` : '')

function keyLines(title: string, keys: readonly string[]): string[] {
  return keys.length === 0 ? [] : ['', title, ...keys.map(key => `  ${key}`)]
}

function verdict({isPending, steps, conflicts, leftovers}: MigrationPlan): string {
  if (steps.some(step => step.isPending)) return 'Migration is pending.'
  if (isPending && conflicts === 0) return 'All items are migrated, but limits are missing.'
  if (isPending)
    return `All items are migrated, except ${formatPlural(conflicts, 'old item')} with conflicts that you must resolve.`
  return leftovers === 0
    ? 'Nothing is pending.'
    : `Nothing is pending. You can clean up ${formatPlural(leftovers, 'item')} of older layouts.`
}

function statusNext(stack: string, survey: Survey, plan: MigrationPlan): NextCommand[] {
  if (!plan.steps.some(step => step.isPending)) return doneNext(stack, survey, plan)
  return [[`zael migrate plan -s ${stack}`, 'show the steps and their cost']]
}

function planNext(stack: string, survey: Survey, plan: MigrationPlan): NextCommand[] {
  const {steps, blockers} = plan
  if (!steps.some(step => step.isPending)) return doneNext(stack, survey, plan)
  if (blockers.some(({blocks}) => blocks === 'run')) return [[`zael migrate status -s ${stack}`, 'show the progress']]
  return [
    [`zael migrate run -s ${stack} --dry-run`, 'check without writing'],
    [`zael migrate run -s ${stack}`, 'migrate while traffic continues'],
    ...(plan.limitless > 0 ? [writeLimits(stack)] : []),
  ]
}

function doneNext(
  stack: string,
  {conflicts: [conflict]}: Survey,
  {leftovers, limitless}: MigrationPlan,
): NextCommand[] {
  if (limitless > 0 && !conflict) return [writeLimits(stack)]
  if (conflict) return [[`zael migrate resolve ${shellWord(conflict.key)} -s ${stack} --keep new`, 'or --keep old']]
  if (leftovers === 0) return [[`zael status -s ${stack}`, 'show the state of the stack']]
  return [
    [`zael migrate verify -s ${stack}`, 'compare every old item with its new one'],
    [`zael migrate cleanup -s ${stack}`, 'delete the old items'],
  ]
}

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
    missing: {...missing, defaultNamespace: registersDefault},
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
    const {since} = PEER_FEATURES[feature]
    return {feature, since, supported: isSupported(feature), items: features.get(feature) ?? 0}
  })
}

export function migrationPlanJson(stack: string, {unknown, limitless}: Survey, plan: MigrationPlan): MigratePlanResult {
  const {isPending, steps, leftovers, ...figures} = plan
  return {
    stack,
    pending: isPending,
    steps: steps.map(({isPending: pending, ...step}) => ({...step, pending})),
    ...figures,
    limitless: limitlessJson(limitless),
    oldItems: leftovers,
    unknownItems: unknown.items,
  }
}
