import * as z from 'zod'
import {preprocess} from 'zod'
import {calendarCheck} from '../core/calendar/schedule.js'
import {InvalidInput} from '../core/errors.js'
import {isShellRest} from '../core/limits/amount-text.js'
import {DEFAULT_ZONE, type Limit, MAX_PERIOD_SECONDS, MAX_SCALE, MAX_TOKENS, makeLimit} from '../core/limits/limit.js'
import {parseLimits} from '../core/limits/limit-text.js'
import {
  checkConfigResource,
  checkEntityId,
  checkLimitName,
  checkNamespaceName,
  checkResourceName,
  DEFAULT_RESOURCE,
  nameForm,
} from '../core/names.js'
import {checkedNameOf, entriesOf, fieldsOf} from '../files/document-issues.js'
import {
  asRead,
  asText,
  describeValue,
  isMapping,
  type Mapping,
  notOneOf,
  WrittenScalar,
} from '../files/document-problems.js'
import type {ProblemPlace} from '../files/yaml-source.js'
import {tooManyLimits} from '../repository/limits/checks.js'
import {entryOfForm} from '../schema/audit-record.js'
import type {AccessSwitch} from '../schema/config-record.js'
import {typedName} from '../schema/hashed-name.js'
import type {Json} from '../schema/json-attribute.js'
import {byText, type Manifest, type ManifestEntity, type ManifestScope} from './manifest.js'

const MAX_VALUES = 1000
// DynamoDB allows 32 levels; the attribute itself is one.
const MAX_DEPTH = 30
// The range of a DynamoDB number.
const LARGEST_NUMBER = 9.9e125
const SMALLEST_NUMBER = 1e-130

/** Read by hand: z.record drops `__proto__`. */
const metadataSchema = z
  .unknown()
  .meta({type: 'object'})
  .transform((input, ctx): {[key: string]: Json} => {
    if (!isMapping(input)) {
      ctx.addIssue({code: 'custom', message: `metadata must be a mapping, not ${describeValue(input)}`})
      return z.NEVER
    }
    const reader = new MetadataReader(ctx)
    const metadata = reader.object(input, [])
    if (reader.isTooLarge) {
      const most = `${MAX_VALUES} values, ${MAX_DEPTH} levels`
      ctx.addIssue({code: 'custom', message: `an entity cannot have more metadata than ${most}`})
    }
    return metadata
  })

class MetadataReader {
  isTooLarge = false
  #values = 0

  constructor(readonly ctx: z.RefinementCtx) {}

  object(mapping: Mapping, path: PropertyKey[]): {[key: string]: Json} {
    if ('' in mapping) {
      const message = 'a metadata key cannot be empty: DynamoDB does not allow it'
      this.ctx.addIssue({code: 'custom', message, path: [...path, ''], params: {at: 'key'} satisfies ProblemPlace})
    }
    return Object.fromEntries(
      Object.entries(mapping).map(([name, value]) => [name, this.#json(value, [...path, name])]),
    )
  }

  #json(value: unknown, path: PropertyKey[]): Json {
    this.isTooLarge ||= ++this.#values > MAX_VALUES || path.length > MAX_DEPTH
    if (this.isTooLarge) return null
    if (isMapping(value)) return this.object(value, path)
    if (Array.isArray(value)) return value.map((item, at) => this.#json(item, [...path, at]))
    const read = asRead(value)
    if (read === null || typeof read === 'string' || typeof read === 'boolean') return read
    if (typeof read === 'number' && isStorable(read)) return read === 0 ? 0 : read
    this.ctx.addIssue({
      code: 'custom',
      message: `${describeValue(value)} cannot be stored exactly; write it in quotes`,
      path,
    })
    return null
  }
}

function isStorable(value: number): boolean {
  if (Number.isInteger(value)) return Number.isSafeInteger(value)
  const size = Math.abs(value)
  return size <= LARGEST_NUMBER && size >= SMALLEST_NUMBER
}

type Rate = Omit<Limit, 'name'>

const POLICIES = ['allow', 'block'] as const

/** Files have stored names, so that each name has one spelling. */
const stored = (kind: 'entity' | 'resource', check: (name: string) => string) => (name: string) => {
  const encoded = typedName(kind, name)
  if (encoded === name) return check(name)
  // Commands would show the encoded name decoded, but not behind a backtick.
  throw new InvalidInput('name.invalid', `${JSON.stringify(name)} must be written as \`${encoded}\``)
}

// The patterns are for editors: zael's own checks have better messages.
/** @internal */
export const entityId = checkedNameOf(stored('entity', checkEntityId), 'must be the id of an entity').meta({
  id: 'entityId',
  ...nameForm('entity'),
})
const resourceName = checkedNameOf(stored('resource', checkResourceName), 'must be a name').meta({
  id: 'resourceName',
  ...nameForm('resource'),
})
const configResource = checkedNameOf(stored('resource', checkConfigResource), 'must be a name').meta({
  id: 'configResource',
  ...nameForm('resource'),
  pattern: `^${DEFAULT_RESOURCE}$|${nameForm('resource').pattern}`,
})
const limitName = checkedNameOf(checkLimitName, 'must be a name').meta({id: 'limitName', ...nameForm('limit')})

const NUMBER = '[0-9]+(\\.[0-9]+)?[kKM]?'
const AMOUNT = `([$€£¥]?${NUMBER}|${NUMBER}[A-Z]{3})`
const PERIOD = '[0-9]*(s|sec|m|min|h|hour|d|day)'
const WHEN = `(/${PERIOD})?(:${AMOUNT})?|/inflight|/${PERIOD}!|/(hour|day|week|month)@[A-Za-z][A-Za-z0-9_+/-]*|@"[^"]+"`
const ANY_NAME = 'limit='

/** Short syntax without the name: `100k/min:200k`. A number is taken as written. */
const rateText = preprocess(
  asText,
  z
    .string({
      error: ({input}) => `must be a rate such as 100/min or a mapping with capacity, not ${describeValue(input)}`,
    })
    .meta({
      description:
        'RATE[/PERIOD][:BURST], such as 100/min, 10/sec:50, 1.5M/day, 500/15min. If absent, the period is a minute. ' +
        'Quotas: 10k/day@Europe/Berlin, $500/month@UTC, 10k@"0 9 * * 1-5", 200/5h! from first use. ' +
        'Requests in flight: 20/inflight. ' +
        'Further parts follow commas: soft, x0.5@"* 9-16 * * 1-5".',
      pattern: `^${AMOUNT}(${WHEN})(,.+)?$`,
    })
    .transform((text, ctx): Rate => {
      try {
        const [limit] = parseLimits([ANY_NAME + text], calendarCheck)
        return limit as Rate
      } catch (error) {
        if (!(error instanceof InvalidInput)) throw error
        const {why, at} = error.details as {why?: string; at?: number}
        const shell = isShellRest(text) ? "; if a shell wrote this file, quote the end mark: <<'EOF'" : ''
        const message = `${why ?? error.message}; write RATE[/PERIOD][:BURST], such as 100k/min:200k${shell}`
        ctx.addIssue({code: 'custom', message, params: {offset: at === undefined ? 0 : at - ANY_NAME.length}})
        return z.NEVER
      }
    }),
)

/** A number as written. The schema refuses values that are not whole or out of range. */
function wholeNumber(what: string, largest: number, least = 1) {
  const read = (input: unknown, ctx: z.RefinementCtx): unknown => {
    if (!(input instanceof WrittenScalar)) return input
    // YAML versions disagree about a leading zero.
    if (/^0\d/.test(input.text)) {
      const message = `${input.text} may be read as an octal number; write it without the leading zero`
      ctx.addIssue({code: 'custom', message})
    }
    const value = /^\d[\d_]*$/.test(input.text) ? Number(input.text.replaceAll('_', '')) : input.value
    return Number.isSafeInteger(value) && Number(value) >= least && Number(value) <= largest ? value : input
  }
  const error = ({input}: {readonly input?: unknown}) =>
    input === undefined
      ? `the ${what} is missing`
      : `must be a whole number from ${least} to ${largest}, not ${describeValue(input)}`
  return preprocess(read, z.int({error}).min(least).max(largest))
}

const tokens = (what: string) => wholeNumber(what, MAX_TOKENS)

const booleanValue = z.boolean({error: ({input}) => `must be true or false, not ${describeValue(input)}`})

function listOf<Entry extends z.ZodType>(what: string, entry: Entry) {
  const error = ({input}: {readonly input?: unknown}) =>
    `${what} must be a list of entries, not ${describeValue(input)}`
  return z.array(entry, {error}).min(1, `${what} has no entries; omit it`)
}

const plainText = (what: string) =>
  preprocess(asText, z.string({error: ({input}) => `${what} must be text, not ${describeValue(input)}`}))

const scale = preprocess(
  asRead,
  z
    .number({error: ({input}) => `must be a number above 0, not ${describeValue(input)}`})
    .positive()
    .max(MAX_SCALE),
)

const resetEntry = fieldsOf('an entry of a reset schedule', {
  cron: plainText('cron').describe('Five fields: minute, hour, day, month, weekday.'),
  tz: plainText('tz').optional().describe('IANA time zone; default: UTC.'),
})

const scheduleEntry = fieldsOf('an entry of a schedule', {
  cron: plainText('cron').describe('Applies in every minute that it matches.'),
  tz: plainText('tz').optional().describe('IANA time zone; default: UTC. All entries of a limit have the same.'),
  scale: scale.optional().describe('Factor of capacity and refill amount.'),
  capacity: tokens('capacity').optional(),
  refill_amount: tokens('refill amount').optional(),
  refill_period_seconds: wholeNumber('refill period', MAX_PERIOD_SECONDS).optional(),
})

/** The Python system's syntax. `burst` replaces `capacity`, also as the default refill. */
const rateFields = fieldsOf('a limit', {
  capacity: tokens('capacity').describe('Maximum number of tokens.'),
  burst: tokens('burst').optional().describe('Replaces capacity; for older files.'),
  refill_amount: wholeNumber('refill amount', MAX_TOKENS, 0)
    .optional()
    .describe('Tokens per period; default: the capacity, or 0 for a quota.'),
  refill_period: wholeNumber('refill period', MAX_PERIOD_SECONDS).optional().describe('Seconds; default: 60.'),
  schedule: listOf('schedule', scheduleEntry).optional().describe('Other parameters during time windows.'),
  reset_schedule: listOf('reset_schedule', resetEntry)
    .optional()
    .describe('Makes it a quota that resets when an entry starts to match.'),
  reset_after_seconds: wholeNumber('session', MAX_PERIOD_SECONDS)
    .optional()
    .describe('Makes it a quota that resets this long after its first use.'),
  soft: preprocess(asRead, booleanValue).optional().describe('Counted, but never refuses.'),
}).transform((fields, ctx): Rate => {
  const {capacity, burst, schedule, reset_schedule: resets, reset_after_seconds: afterSeconds} = fields
  const full = burst ?? capacity
  const isQuota = resets !== undefined || afterSeconds !== undefined
  const zones = [...new Set([...(schedule ?? []), ...(resets ?? [])].map(({tz}) => tz ?? DEFAULT_ZONE))]
  const refuse = (message: string): never => {
    ctx.addIssue({code: 'custom', message})
    return z.NEVER
  }
  if (resets !== undefined && afterSeconds !== undefined)
    return refuse('give either reset_schedule or reset_after_seconds: a quota has one kind of reset')
  if (zones.length > 1) return refuse(`all entries of a limit share one time zone, not ${zones.join(' and ')}`)
  try {
    return makeLimit(
      {
        name: ANY_NAME.slice(0, -1),
        capacity: full,
        refillAmount: fields.refill_amount ?? (isQuota ? 0 : full),
        refillPeriodSeconds: fields.refill_period ?? 60,
        ...(resets && {reset: {crons: resets.map(({cron}) => cron)}}),
        ...(afterSeconds !== undefined && {reset: {afterSeconds}}),
        schedule: schedule?.map(entryOfForm),
        timeZone: zones[0],
        soft: fields.soft,
      },
      calendarCheck,
    )
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    return refuse((error.details as {why?: string}).why ?? error.message)
  }
})

const perMinute = z
  .int()
  .min(1)
  .max(MAX_TOKENS)
  .describe('Tokens per minute.')
  .transform((amount): Rate => ({capacity: amount, refillAmount: amount, refillPeriodSeconds: 60}))

const rate = z.union([rateText, perMinute, rateFields]).meta({id: 'limit'})

const limits = entriesOf('limits', limitName, rate)
  .meta({
    id: 'limits',
    description: 'All limits of the scope by name; limits that are not listed are removed.',
    minProperties: 1,
  })
  .transform(rates =>
    Object.entries(rates)
      .map(([name, rate]): Limit => ({...rate, name}))
      .sort((a, b) => byText(a.name, b.name)),
  )
  .check(({value, issues}) => {
    const zones = [...new Set(value.flatMap(({timeZone}) => timeZone ?? []))]
    const message = `all limits of a scope share one time zone, not ${zones.join(' and ')}`
    if (zones.length > 1) issues.push({code: 'custom', input: value, path: [], message})
    const tooMany = tooManyLimits(value)
    if (tooMany !== undefined) issues.push({code: 'custom', input: value, path: [], message: tooMany})
  })

const someLimits = limits.refine(({length}) => length > 0, 'no limits are given; add one, such as rpm: 100/min')

const switchValue = z.union([
  z.boolean({error: ({input}) => `must be true, false or bypass, not ${describeValue(input)}`}),
  z.literal('bypass'),
])

/** Without limits, a scope needs a policy, as in the Python system. */
const scope = fieldsOf('this', {
  limits: limits.optional(),
  disabled: preprocess(asRead, switchValue.nullable())
    .optional()
    .describe(
      'true refuses every request, false enables them, bypass admits and only counts them. null: the next level decides. If absent, the stored value is kept.',
    ),
  cascade: preprocess(asRead, booleanValue.nullable())
    .optional()
    .describe('Also charge requests to the parent. null: the next level decides. If absent, the stored value is kept.'),
})
  .check(({value, issues}) => {
    const {limits, disabled = null, cascade = null} = value
    if (disabled !== null || cascade !== null || (limits ?? []).length > 0) return
    const [message, path] =
      limits === undefined
        ? ['no limits are given; add "limits"', []]
        : ['no limits are given; add one, such as rpm: 100/min', ['limits']]
    issues.push({code: 'custom', input: value, path, message})
  })
  .meta({id: 'scope', anyOf: ['limits', 'disabled', 'cascade'].map(statedValue)})
  .transform(
    ({limits = [], disabled, cascade}): ManifestScope => ({
      limits,
      policies: {
        ...(disabled !== undefined && {access: accessOf(disabled)}),
        ...(cascade !== undefined && {cascade: cascade ?? undefined}),
      },
    }),
  )

function statedValue(key: string): object {
  return {required: [key], properties: {[key]: {not: {type: 'null'}}}}
}

function accessOf(disabled: boolean | 'bypass' | null): AccessSwitch | undefined {
  if (disabled === null) return undefined
  return disabled === 'bypass' ? disabled : disabled ? 'disabled' : 'enabled'
}

const mapOf = <T>(entries: Readonly<Record<string, T>>): ReadonlyMap<string, T> => new Map(Object.entries(entries))

const system = fieldsOf('the system section', {
  on_unavailable: preprocess(
    asText,
    z.enum(POLICIES, {
      error: ({input}) =>
        typeof input === 'string'
          ? notOneOf('a policy', input, POLICIES)
          : `must be allow or block, not ${describeValue(input)}`,
    }),
  )
    .optional()
    .describe('Admit or refuse requests while the table is unavailable. If absent, the stored value is kept.'),
  // Files of the Python system may state a policy with empty limits.
  limits: limits.optional(),
})
  .check(({value, issues}) => {
    const message =
      value.limits === undefined
        ? 'the section is empty; add "limits" or "on_unavailable", or omit the section'
        : 'no limits are given; add one, such as rpm: 100/min'
    const path = value.limits === undefined ? [] : ['limits']
    const isEmpty = value.on_unavailable === undefined && (value.limits ?? []).length === 0
    if (isEmpty) issues.push({code: 'custom', input: value, path, message})
  })
  .meta({description: 'Defaults for resources and entities without their own limits.', minProperties: 1})
  .transform(({limits = [], on_unavailable: onUnavailable}) => ({limits, onUnavailable}))

export const entity = fieldsOf('an entity', {
  name: preprocess(asText, z.string({error: ({input}) => `must be text, not ${describeValue(input)}`}))
    .optional()
    .describe('Display name.'),
  parent: preprocess(asText, entityId.nullable()).optional().describe('Parent whose limits it shares; null for none.'),
  cascade: preprocess(asRead, booleanValue)
    .optional()
    .describe('Also charge every request to the parent. A cascade policy overrides this.'),
  metadata: metadataSchema.optional().describe('Free-form data.'),
  limits: someLimits.optional(),
  resources: entriesOf('resources', configResource, scope)
    .optional()
    .describe(`Limits and policies of this entity for a resource; ${DEFAULT_RESOURCE} is for all others.`),
})
  .meta({description: 'Absent keys do not change.'})
  .transform(({limits, resources = {}, ...record}): ManifestEntity => {
    const scopes = new Map<string, ManifestScope>(limits ? [[DEFAULT_RESOURCE, {limits, policies: {}}]] : [])
    for (const [name, theirs] of Object.entries(resources)) scopes.set(name, theirs)
    return {...stated(record), scopes}
  })

function stated<T extends object>(record: T): {[Key in keyof T]?: Exclude<T[Key], undefined>} {
  const fields = Object.entries(record).filter(([, value]) => value !== undefined)
  return Object.fromEntries(fields) as {[Key in keyof T]?: Exclude<T[Key], undefined>}
}

export const entitiesSchema = entriesOf('entities', entityId, entity)

/** Its JSON Schema for editors: `templates/limits.schema.json`. */
export const manifestSchema = fieldsOf('a manifest', {
  namespace: preprocess(
    asText,
    checkedNameOf(
      checkNamespaceName,
      'must be a name',
      'the key "namespace" is missing; it names the namespace of this file',
    ).meta({...nameForm('namespace')}),
  ).describe('Namespace of this file.'),
  system: system.optional(),
  resources: entriesOf('resources', resourceName, scope)
    .optional()
    .describe('Limits and policies of all entities for a resource.'),
  entities: entitiesSchema.optional().describe('Entities with their parents and limits.'),
})
  .meta({
    title: 'zael limits',
    description: 'The limits and entities of one namespace, for zael limits plan, apply, diff and validate.',
  })
  .transform(({namespace, system, resources = {}, entities = {}}): Manifest => {
    return {namespace, system, resources: mapOf(resources), entities: mapOf(entities)}
  })

export type Parents = Pick<ReadonlyMap<string, unknown>, 'keys' | 'has' | 'get'>

/** Each cycle once, with its first entity repeated at the end. */
export function parentCycles(parents: Parents): string[][] {
  const cycles: string[][] = []
  const cleared = new Set<string>()
  for (const start of parents.keys()) {
    const path = new Set<string>()
    let next: unknown = start
    while (typeof next === 'string' && parents.has(next) && !cleared.has(next) && !path.has(next)) {
      path.add(next)
      next = parents.get(next)
    }
    if (typeof next === 'string' && path.has(next)) {
      const all = [...path]
      cycles.push([...all.slice(all.indexOf(next)), next])
    }
    for (const entity of path) cleared.add(entity)
  }
  return cycles
}
