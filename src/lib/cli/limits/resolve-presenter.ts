import {nextLevel, rateText} from '../../core/limits/boost-text.js'
import type {FamilyLimits, SharedCharge} from '../../insight/lookup/family-limits.js'
import type {LevelTrace, Resolution} from '../../repository/limits/resolver.js'
import {scopeWords} from '../base/scope.js'
import type {SharedChargeJson} from '../output/results.js'
import type {TextColumn} from '../output/table-layout.js'
import {factLines, textTable} from '../output/text-table.js'
import {limitJson, scopeJson, switchEndJson} from './json.js'
import {accessText, cascadeText, configuredText} from './presenter.js'
import type {LimitsResolveResult, ResolutionJson} from './results.js'

export function resolveJson(family: FamilyLimits): LimitsResolveResult {
  const {entity, resource, isRegistered, own, cascade} = family
  const parents = family.parents.map(parent => ({entity: parent.entity, ...resolutionJson(parent.resolution)}))
  return {
    entity,
    resource,
    registered: isRegistered,
    ...resolutionJson(own),
    onUnavailable: own.onUnavailable ?? null,
    cascade: sharedChargeJson(cascade),
    parent: parents[0] ?? null,
    parents,
  }
}

export function sharedChargeJson(cascade: SharedCharge | undefined): SharedChargeJson {
  return cascade ? {charged: cascade.charged, level: cascade.level} : null
}

function resolutionJson({source, limits, trace, access}: Resolution): ResolutionJson {
  return {
    source: source ?? null,
    limits: limits.map(limitJson),
    access: access ? {access: access.access, level: access.level, ...switchEndJson(access)} : null,
    levels: trace.map(({level, scope, limits: configured, access: own, cascade}) => ({
      ...scopeJson(scope),
      limits: configured.map(limitJson),
      access: own ?? null,
      cascade: cascade ?? null,
      applies: level === source,
    })),
  }
}

export async function resolveLines(family: FamilyLimits, width: number | undefined): Promise<string[]> {
  const {entity, resource, isRegistered, own, cascade, parents, leftOut} = family
  const lines = await resolutionLines(`Limits of ${entity} for ${resource}`, own, width, cascade)
  const hasOwn = own.trace.some(({scope, limits}) => scope.level === 'entity' && limits.length > 0)
  if (!isRegistered && !hasOwn)
    lines.push('', `${entity} has no record, but limits apply anyway. Check the spelling if you expected a record.`)
  if (own.onUnavailable) lines.push('', `When the table is unavailable: ${own.onUnavailable}.`)
  for (const parent of parents) {
    const title = `Limits of its parent ${parent.entity}, also charged for every request`
    lines.push('', ...(await resolutionLines(title, parent.resolution, width)))
  }
  return leftOut === undefined ? lines : [...lines, '', leftOutText(entity, parents.length, leftOut)]
}

/** An ancestor that users may expect to be charged too. */
export function leftOutText(entity: string, charged: number, leftOut: string): string {
  const why =
    charged > 1 ? `requests charge at most ${charged + 1} levels` : 'the namespace charges only the direct parent'
  return `Requests of ${entity} do not charge ${leftOut}: ${why}.`
}

async function resolutionLines(
  title: string,
  resolution: Resolution,
  width: number | undefined,
  cascade?: SharedCharge,
): Promise<string[]> {
  const {source, limits, trace, access} = resolution
  const facts = {
    ...Object.fromEntries(limits.map(limit => [limit.name, rateText(limit, nextLevel(resolution, limit))])),
    access:
      access &&
      `${accessText({access: access.access, accessUntilMs: access.untilMs})} (${access.level.replace('_', ' ')} level)`,
    reason: access?.reason,
    cascade: cascade && `${cascadeText(cascade.charged)} (${cascadeSource(cascade)})`,
  }
  const applied = factLines(source === undefined ? `${title}: none, so requests fail` : title, facts)
  const rows = trace.map(each => [scopeWords(each.scope), verdict(each, source), configuredText(each)])
  return [...applied, '', ...(await textTable(LEVEL_COLUMNS, rows, {header: true, width}))]
}

const LEVEL_COLUMNS: readonly TextColumn[] = [
  {header: 'SET FOR', fit: 'whole'},
  {header: '', fit: 'key'},
  {header: 'LIMITS', fit: 'text'},
]

export function cascadeSource({level}: SharedCharge): string {
  return level === 'record' ? 'of the entity itself' : `${level.replace('_', ' ')} level`
}

function verdict({level, limits, access, cascade}: LevelTrace, source: Resolution['source']): string {
  if (limits.length === 0) return access === undefined && cascade === undefined ? 'not set' : 'no limits'
  return level === source ? 'applies' : 'not used'
}
