import {isDeepStrictEqual} from 'node:util'
import {InvalidInput} from '../../core/errors.js'
import {groupBy} from '../../core/group-by.js'
import {boostField, limitText} from '../../core/limits/boost-text.js'
import {baseOf, type Level} from '../../core/limits/limit.js'
import {DEFAULT_RESOURCE} from '../../core/names.js'
import {moneyDecimal, withCurrency} from '../../core/text/money.js'
import {
  formatCount,
  formatList,
  formatMinute,
  formatPlural,
  formatSome,
  formatTokens,
  readPairs,
  shellWord,
} from '../../core/text/text.js'
import type {EntityOverview} from '../../insight/lookup/entity-overview.js'
import type {DeletedEntity, EntityFilter, SearchOptions, SearchProgress} from '../../repository/entities/search.js'
import type {SyncResult} from '../../repository/limits/bucket-sync.js'
import type {UnitsByLimit} from '../../repository/limits/units.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {UsageSummary} from '../../repository/usage/usage.js'
import {isoSeconds} from '../../schema/attribute-value.js'
import type {AccessSwitch, ConfigScope} from '../../schema/config-record.js'
import type {EntityRecord} from '../../schema/entity-record.js'
import {MOST_LEVELS} from '../../schema/namespace-record.js'
import {scopeWords} from '../base/scope.js'
import {scopeJson, switchEndJson, switchSetJson, switchSetText} from '../limits/json.js'
import {type KindCounts, kindLines} from '../output/kind-counts.js'
import type {Listing, ListingColumn} from '../output/listing.js'
import {ProgressLine, type ProgressStream} from '../output/progress.js'
import {factLines, type NextCommand, nextLines, textTable, updatedText} from '../output/text-table.js'
import type {EntityDeleteResult, EntityJson, EntityListResult, EntityShowResult} from './results.js'

export function entityJson({entity, name, parent, cascade, metadata, createdAt, version}: EntityRecord): EntityJson {
  return {id: entity, name, parent: parent ?? null, cascade, metadata, createdAt: createdAt || null, version}
}

const COLUMNS: readonly ListingColumn<EntityRecord>[] = [
  {name: 'id', value: ({entity}) => entity},
  {name: 'name', value: ({name}) => name},
  {name: 'parent', value: ({parent}) => parent},
  {name: 'cascade', value: ({cascade}) => (cascade ? 'yes' : 'no'), raw: ({cascade}) => cascade},
  {name: 'created', fit: 'spare', value: ({createdAt}) => createdAt},
  {name: 'metadata', value: ({metadata}) => formatMetadata(metadata), isExtra: true},
  {name: 'version', value: ({version}) => version, isExtra: true},
]

export function entityListing(rows: readonly EntityRecord[], empty: string): Listing<EntityRecord> {
  return {rows, columns: COLUMNS, empty}
}

type Family = Pick<EntityOverview, 'parents' | 'levels'>

/** To state who is charged too. */
export async function lineageOf(
  namespace: Pick<NamespaceRepository, 'entities' | 'levels'>,
  {entity}: EntityRecord,
): Promise<Family> {
  const [parents, levels] = await Promise.all([namespace.entities.parents(entity), namespace.levels()])
  return {parents, levels}
}

export function entityCreatedLines(record: EntityRecord, family: Family | undefined): string[] {
  const chain = family && parentChain({id: record.entity, record, parents: family.parents})
  return entityLines(`Created entity "${record.entity}"`, record, chain, family)
}

function entityLines(title: string, record: EntityRecord, chain = record.parent, family?: Family): string[] {
  return factLines(title, {
    name: record.name === record.entity ? undefined : record.name,
    parent: chain,
    cascade: record.parent === undefined ? undefined : cascadeWords(record, family),
    metadata: formatMetadata(record.metadata),
    created: record.createdAt || undefined,
  })
}

function cascadeWords(record: EntityRecord, family: Family | undefined): string {
  if (!record.cascade) return 'no'
  const {charged, leftOut} = family ? chargedBy(record, family) : {charged: [], leftOut: undefined}
  const who = charged.length > 1 ? formatList(charged) : 'the parent'
  return `yes, requests also charge ${who}${leftOut === undefined ? '' : `, but not ${leftOut}`}`
}

/** By the records, without cascade policies. `leftOut`: an ancestor that users may expect to be charged too. */
function chargedBy(
  record: EntityRecord,
  {parents, levels}: Family,
): {readonly charged: readonly string[]; readonly leftOut: string | undefined} {
  const path = [record.entity]
  for (const {parent, cascade} of [record, ...parents]) {
    if (!cascade || parent === undefined || path.includes(parent)) break
    if (path.length === MOST_LEVELS[levels]) return {charged: path.slice(1), leftOut: parent}
    path.push(parent)
  }
  return {charged: path.slice(1), leftOut: undefined}
}

/** Warns that requests do not charge an ancestor although every link cascades. */
export function unchargedWarning(record: EntityRecord, family: Family, namespace: string): string | undefined {
  const {charged, leftOut} = chargedBy(record, family)
  if (leftOut === undefined) return undefined
  const why =
    family.levels === 'all'
      ? `requests charge at most ${MOST_LEVELS.all} levels`
      : `only the direct parent is charged. To charge all: zael namespace set ${shellWord(namespace)} --levels all`
  return `Requests of "${record.entity}" charge ${formatList(charged.map(each => `"${each}"`))}, but not "${leftOut}": ${why}`
}

const CHANGEABLE = ['name', 'parent', 'cascade', 'metadata'] as const

export function changesOf(before: EntityRecord, after: EntityRecord): (typeof CHANGEABLE)[number][] {
  return CHANGEABLE.filter(key => !isDeepStrictEqual(before[key], after[key]))
}

export function entityUpdatedLines(
  before: EntityRecord,
  after: EntityRecord,
  buckets: SyncResult,
  family?: Family,
): string[] {
  const changes = changesOf(before, after)
  const stamped = buckets.updated + buckets.failed === 0 ? undefined : updatedText(buckets)
  if (changes.length === 0) {
    const title = `Entity "${after.entity}" already has these values; nothing was changed`
    return stamped === undefined ? [title] : factLines(title, {'live buckets': stamped})
  }
  const words = ({name, parent, cascade, metadata}: EntityRecord) => ({
    name,
    parent: parent ?? '(none)',
    cascade: cascade ? 'yes' : 'no',
    metadata: formatMetadata(metadata) ?? '(none)',
  })
  const was = words(before)
  const is = words(after)
  const {charged} = family ? chargedBy(after, family) : {charged: []}
  return factLines(`Changed entity "${after.entity}"`, {
    ...Object.fromEntries(changes.map(key => [key, `${was[key]} → ${is[key]}`])),
    'also charged': charged.length > 0 ? charged.join(' → ') : undefined,
    'live buckets': stamped,
  })
}

/** A scope whose requests stay refused. */
export interface KeptBlock {
  readonly scope: ConfigScope
  /** Epoch ms at which the block ends; absent if it stays. */
  readonly untilMs?: number | undefined
}

export interface DeletionEffect {
  readonly id: string
  readonly parent: string | undefined
  readonly blocks: readonly KeptBlock[]
  /** Whether the command was given --block. */
  readonly block: boolean
  /** Flags for suggested commands, each with a leading space. */
  readonly where: string
  readonly usage: DeletedUsage
}

/** Recorded usage that reports lack after the deletion. */
export type DeletedUsage = EntityDeleteResult['usage']

export function deletedUsage({firstStart, totalEvents, limits}: UsageSummary, units: UnitsByLimit): DeletedUsage {
  const money = Array.from(limits, ([limit, {total}]) => ({limit, unit: units.get(limit), total}))
  return {
    since: firstStart ?? null,
    requests: totalEvents,
    money: money.flatMap(({limit, unit, total}) =>
      unit === undefined || total === 0 ? [] : [{limit, unit, amount: moneyDecimal(total)}],
    ),
  }
}

function usageSentences({usage: {since, requests, money}}: DeletionEffect, isDeleted: boolean): string[] {
  if (since === null) return []
  const figures = [
    formatPlural(requests, 'request'),
    ...money.map(({limit, unit, amount}) => `${limit} ${withCurrency(amount, unit)}`),
  ]
  const state = isDeleted ? 'is no longer in reports and exports' : 'will be missing in reports and exports'
  return [`Its usage since ${since.slice(0, 10)} ${state}: ${figures.join(', ')}.`]
}

const exportCommand = ({usage: {since}, where}: DeletionEffect): NextCommand[] =>
  since === null
    ? []
    : [[`zael usage export --window monthly --since ${since.slice(0, 10)}${where} > usage.csv`, 'keep its usage first']]

export const keptBlockJson = ({scope, untilMs}: KeptBlock): EntityDeleteResult['blocked'][number] => ({
  ...scopeJson(scope),
  until: untilMs === undefined ? null : isoSeconds(untilMs),
})

export function entityDeletionPhrase({total}: KindCounts, effect: DeletionEffect): string {
  const items = formatPlural(total, 'item')
  return [
    `This permanently deletes ${items} of entity "${effect.id}", with its usage; its audit events are kept.`,
    ...usageSentences(effect, false),
    ...exportCommand(effect).map(([command]) => `To keep it, first run: ${command}.`),
    ...effectSentences(effect),
  ]
    .join(' ')
    .replace(/\.$/, '')
}

export function entityDeletionLines(counts: KindCounts, effect: DeletionEffect, dryRun: boolean): string[] {
  const {id} = effect
  const title = dryRun ? `Deleting entity "${id}" would permanently delete:` : `Deleted entity "${id}":`
  return [
    title,
    ...kindLines(counts),
    'Its audit events are kept.',
    ...usageSentences(effect, !dryRun),
    ...effectSentences(effect),
    ...nextLines(dryRun ? [...exportCommand(effect), ...deletionCommands(effect)] : [blockCommand(effect)]),
  ]
}

const REFUSE = 'refuse every request with this id'

function deletionCommands({id, blocks, block, where}: DeletionEffect): NextCommand[] {
  const command = (flag: string) => `zael entity delete ${shellWord(id)}${flag}${where}`
  if (blocks.some(isForAll)) return [[command(block ? ' --block' : ''), 'delete it; the block stays']]
  return [
    [command(''), 'delete it'],
    [command(' --block'), `delete it and ${REFUSE}`],
  ]
}

function blockCommand({id, blocks, where}: DeletionEffect): NextCommand {
  const command = (verb: string) => `zael entity ${verb} ${shellWord(id)}${where}`
  return blocks.some(isForAll) ? [command('enable'), 'lift the block'] : [command('disable'), REFUSE]
}

const isOfAllResources = ({scope}: KeptBlock): boolean =>
  scope.level === 'entity' && scope.resource === DEFAULT_RESOURCE

/** For all resources, without an end. */
const isForAll = (block: KeptBlock): boolean => isOfAllResources(block) && block.untilMs === undefined

/** The decisions on later requests with this id. */
function effectSentences({id, parent, blocks}: DeletionEffect): string[] {
  if (blocks.some(isForAll)) return [`${id} stays blocked: every later request is refused.`]
  const resourcesOf = (kept: readonly KeptBlock[]) =>
    kept.flatMap(({scope}) => (scope.level === 'entity' ? [scope.resource] : []))
  const lasting = resourcesOf(blocks.filter(({untilMs}) => untilMs === undefined))
  const ending = blocks.flatMap(block => (block.untilMs === undefined ? [] : [{block, untilMs: block.untilMs}]))
  const endSentence = ({block, untilMs}: (typeof ending)[number]) => {
    const which = isOfAllResources(block) ? '' : ` for ${formatList(resourcesOf([block]))}`
    return `${id} stays blocked${which} only until ${formatMinute(untilMs)}.`
  }
  const others = blocks.every(isOfAllResources) ? '' : ' for other resources'
  return [
    ...(lasting.length === 0 ? [] : [`${id} stays blocked for ${formatList(lasting)}.`]),
    ...ending.map(endSentence),
    `Later requests of ${id}${others} are admitted: the limits of the resource apply` +
      `${parent === undefined ? '.' : `, and its parent ${parent} is not charged.`}`,
  ]
}

/** A value may contain "=" and may be empty. */
export function parseMetadata(texts: readonly string[]): Record<string, string> {
  const pairs = readPairs(texts, '=', (problem, {text, name}) => {
    if (problem === 'duplicate')
      return new InvalidInput('metadata.duplicate', `--metadata: the key "${name}" is given twice`)
    const why = problem === 'no-name' ? 'the key is missing' : 'the "=" between key and value is missing'
    return new InvalidInput('metadata.syntax', `--metadata: cannot read "${text}": ${why}`, {
      hint: 'Write KEY=VALUE, for example --metadata tier=gold',
      details: {piece: text},
    })
  })
  return Object.fromEntries(pairs.map(({name, value}) => [name, value]))
}

/** Sorted, since the table keeps no order; non-strings as JSON. */
export function formatMetadata(metadata: Readonly<Record<string, unknown>>): string | undefined {
  const pieces = Object.entries(metadata)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
  return pieces.length === 0 ? undefined : pieces.join(', ')
}

const SOURCES: Readonly<Record<Level | 'record', string>> = {
  entity: 'entity + resource',
  entity_default: 'entity',
  resource: 'resource',
  system: 'system',
  record: 'record',
}

export function overviewJson({id, record, deletedAt, parents, resources}: EntityOverview): EntityShowResult {
  const unregistered = {id, name: null, parent: null, cascade: false, metadata: {}, createdAt: null, version: null}
  return {
    registered: record !== undefined,
    deletedAt: deletedAt ?? null,
    ...(record ? entityJson(record) : unregistered),
    parents: parents.map(parent => ({id: parent.entity, name: parent.name, cascade: parent.cascade})),
    resources: resources.map(({resource, source, cascade, access, limits, shards}) => ({
      resource: resource ?? null,
      source: source ?? null,
      cascade: cascade ? {charged: cascade.charged, level: cascade.level} : null,
      access: access
        ? {
            access: access.access,
            setFor: scopeJson(access.scope),
            ...switchEndJson(access),
            ...switchSetJson(access.set),
          }
        : null,
      limits: limits.map(limit => {
        const {available = null, capacityNow} = limit
        const {boost: _, ...base} = baseOf(limit)
        return {...base, available, capacityNow, ...boostField(limit)}
      }),
      shards,
    })),
  }
}

export async function entityOverviewLines(overview: EntityOverview, width: number | undefined): Promise<string[]> {
  const {id, record, deletedAt, resources} = overview
  const unregistered =
    deletedAt === undefined
      ? `Entity "${id}" has no record; it has limits or buckets`
      : `Entity "${id}" was deleted at ${deletedAt} and is blocked. To lift the block: zael entity enable ${shellWord(id)}`
  const head = record ? entityLines(`Entity "${id}"`, record, parentChain(overview), overview) : [unregistered]
  const switches = [...accessLines(resources, 'disabled'), ...accessLines(resources, 'bypass')]
  const hasPolicies = resources.some(({cascade}) => cascade && cascade.level !== 'record')
  const rows = resources.flatMap(({resource = OTHERS, source, cascade, access, limits, shards}) =>
    limits.map(limit => [
      resource,
      limitText(limit),
      source && SOURCES[source],
      ...(hasPolicies ? [cascade && `${cascade.charged ? 'on' : 'off'}, ${SOURCES[cascade.level]}`] : []),
      (access && SWITCHED[access.access]) ?? balanceOf(limit.available, limit.unit),
      balanceOf(limit.capacityNow, limit.unit),
      shards === 0 ? undefined : shards,
    ]),
  )
  if (rows.length === 0) return [...head, ...switches, '', 'No limits apply to it.']
  const columns = [
    {header: 'RESOURCE', fit: 'key'},
    {header: 'LIMIT', fit: 'text'},
    {header: 'SET FOR'},
    ...(hasPolicies ? [{header: 'CASCADE'}] : []),
    {header: 'AVAILABLE', align: 'right', fit: 'key'},
    {header: 'CAPACITY', align: 'right'},
    {header: 'SHARDS', align: 'right', fit: 'spare'},
  ] as const
  return [...head, ...switches, '', ...(await textTable(columns, rows, {header: true, width}))]
}

const balanceOf = (tokens: number | undefined, unit: string | undefined): string | number | undefined =>
  tokens === undefined || unit === undefined ? tokens : formatTokens(tokens, unit)

const OTHERS = '(any other)'

const SWITCHED: Readonly<Partial<Record<AccessSwitch, string>>> = {disabled: 'disabled', bypass: 'bypassed'}

const EFFECTS = {
  disabled: 'Disabled: every request is refused',
  bypass: 'Bypassed: every request is admitted and not charged',
} as const

function setText({scope, untilMs, reason, set}: NonNullable<EntityOverview['resources'][number]['access']>): string {
  const end = untilMs === undefined ? '' : ` until ${formatMinute(untilMs)}`
  const origin = set ? ` at ${switchSetText(set)}` : ''
  return `Set for ${scopeWords(scope)}${origin}${end === '' || origin === '' ? end : `,${end}`}.${reason === undefined ? '' : ` Reason: ${reason}`}`
}

/** One line per switch, with the resources that it decides. */
function accessLines(resources: EntityOverview['resources'], which: keyof typeof EFFECTS): string[] {
  const switched = resources.flatMap(({resource = OTHERS, access}) =>
    access?.access === which ? [{resource, set: setText(access)}] : [],
  )
  return [...groupBy(switched, ({set}) => set)].map(([set, decided]) => {
    const names = decided.map(({resource}) => resource).join(', ')
    const what = decided.length === resources.length ? '' : ` (${names})`
    return `${EFFECTS[which]}${what}. ${set}`
  })
}

/** Nearest first. Other clients do not check parents: one may be missing, or be its own descendant. */
function parentChain({id, record, parents}: Pick<EntityOverview, 'id' | 'record' | 'parents'>): string | undefined {
  if (record?.parent === undefined) return undefined
  const names = parents.map(parent => parent.entity)
  const end = (parents.at(-1) ?? record).parent
  if (end === undefined) return names.join(' → ')
  if ([id, ...names].includes(end)) return `${[...names, end].join(' → ')}, a cycle`
  return [...names, `${end} (does not exist)`].join(' → ')
}

/** Searches that read fewer entities do not report their cost. */
const MANY = 1000

const MOST_DELETED = 5

export class SearchReport {
  readonly #line: ProgressLine
  #progress: SearchProgress = {read: 0, found: 0}

  constructor(stream: ProgressStream = process.stderr) {
    this.#line = new ProgressLine(stream)
  }

  /** Deleted entities found, which stay blocked. */
  readonly deleted: DeletedEntity[] = []

  readonly options: SearchOptions = {
    onDeleted: deleted => void this.deleted.push(deleted),
    onProgress: progress => {
      this.#progress = progress
      const {read, found} = progress
      this.#line.draw(() => `Searching  ${formatCount(read)} entities read, ${formatCount(found)} found`)
    },
  }

  /** Clears the progress line before an entity may be printed. */
  async *cleared<T>(found: AsyncIterable<T>): AsyncGenerator<T, void> {
    try {
      for await (const each of found) {
        this.#line.clear()
        yield each
      }
    } finally {
      this.#line.clear()
    }
  }

  lines({prefix, text, parent}: EntityFilter): string[] {
    this.#line.clear()
    const {read} = this.#progress
    const isCheap = read < MANY || text === undefined || prefix !== undefined || parent !== undefined
    const cost = `Read ${formatCount(read)} entities, half a read unit each.`
    return [...this.#deletedLines(), ...(isCheap ? [] : [`${cost} To read fewer, select ids with --prefix.`])]
  }

  #deletedLines(): string[] {
    const ids = this.deleted.map(({entity}) => entity)
    return ids.length === 0 ? [] : [`Deleted, but still blocked: ${formatSome(ids, MOST_DELETED)}`]
  }

  deletedJson(): EntityListResult['deleted'] {
    return this.deleted.map(({entity, deletedAt}) => ({id: entity, deletedAt}))
  }
}
