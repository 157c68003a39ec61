import {z} from 'zod'
import {InvalidInput} from '../core/errors.js'
import {type Limit, MAX_PERIOD_SECONDS, MAX_TOKENS, parseLimit} from '../core/limit.js'
import {
  checkConfigResource,
  checkEntityId,
  checkLimitName,
  checkNamespaceName,
  checkResourceName,
  DEFAULT_RESOURCE,
  nameForm,
} from '../core/names.js'
import {checkedNameOf, entriesOf, fieldsOf} from '../documents/issues.js'
import {notOneOf} from '../documents/problems.js'
import {asRead, asText, describeValue, WrittenScalar} from '../documents/values.js'
import {byText, type Manifest, type ManifestEntity} from './manifest.js'
import {metadataSchema} from './metadata.js'

/** A limit without its name. */
type Rate = Omit<Limit, 'name'>

const POLICIES = ['allow', 'block'] as const

// The forms are for editors: zael's own checks have better messages.
const entityId = checkedNameOf(checkEntityId, 'must be the id of an entity').meta({
  id: 'entityId',
  ...nameForm('entity'),
})
const resourceName = checkedNameOf(checkResourceName, 'must be a name').meta({
  id: 'resourceName',
  ...nameForm('resource'),
})
const configResource = checkedNameOf(checkConfigResource, 'must be a name').meta({
  id: 'configResource',
  ...nameForm('resource'),
  pattern: `^${DEFAULT_RESOURCE}$|${nameForm('resource').pattern}`,
})
const limitName = checkedNameOf(checkLimitName, 'must be a name').meta({id: 'limitName', ...nameForm('limit')})

const NUMBER = '[0-9]+(\\.[0-9]+)?[kKM]?'
const ANY_NAME = 'limit='

/** The short syntax without the name: `100k/min:200k`. A number is taken as it is written. */
const rateText = z.preprocess(
  asText,
  z
    .string({
      error: ({input}) => `must be a rate such as 100/min or a mapping with capacity, not ${describeValue(input)}`,
    })
    .meta({
      description:
        'RATE[/PERIOD][:BURST], such as 100/min, 10/sec:50, 1.5M/day, 500/15min. If absent, the period is a minute.',
      pattern: `^${NUMBER}(/[0-9]*(s|sec|m|min|h|hour|d|day))?(:${NUMBER})?$`,
    })
    .transform((text, ctx): Rate => {
      try {
        return parseLimit(ANY_NAME + text)
      } catch (error) {
        if (!(error instanceof InvalidInput)) throw error
        const {why, at} = error.details as {why?: string; at?: number}
        const message = `${why ?? error.message}; write RATE[/PERIOD][:BURST], such as 100k/min:200k`
        ctx.addIssue({code: 'custom', message, params: {offset: at === undefined ? 0 : at - ANY_NAME.length}})
        return z.NEVER
      }
    }),
)

/** A number as it is written; one that is not whole or not in the range is left for the schema to refuse. */
function wholeNumber(what: string, largest: number) {
  const read = (input: unknown, ctx: z.RefinementCtx): unknown => {
    if (!(input instanceof WrittenScalar)) return input
    // YAML versions disagree about a leading zero.
    if (/^0\d/.test(input.text)) {
      const message = `${input.text} may be read as an octal number; write it without the leading zero`
      ctx.addIssue({code: 'custom', message})
    }
    const value = /^\d[\d_]*$/.test(input.text) ? Number(input.text.replaceAll('_', '')) : input.value
    return Number.isSafeInteger(value) && Number(value) >= 1 && Number(value) <= largest ? value : input
  }
  const error = ({input}: {readonly input?: unknown}) =>
    input === undefined
      ? `the ${what} is missing`
      : `must be a whole number from 1 to ${largest}, not ${describeValue(input)}`
  return z.preprocess(read, z.int({error}).min(1).max(largest))
}

const tokens = (what: string) => wholeNumber(what, MAX_TOKENS)

/** The Python system's syntax: `burst`, if given, replaces `capacity`, also as the default of the refill. */
const rateFields = fieldsOf('a limit', {
  capacity: tokens('capacity').describe('Maximum number of tokens.'),
  burst: tokens('burst').optional().describe('Replaces capacity; for older files.'),
  refill_amount: tokens('refill amount').optional().describe('Tokens per period; default: the capacity.'),
  refill_period: wholeNumber('refill period', MAX_PERIOD_SECONDS).optional().describe('Seconds; default: 60.'),
}).transform(({capacity, burst = capacity, refill_amount = burst, refill_period = 60}): Rate => {
  return {capacity: burst, refillAmount: refill_amount, refillPeriodSeconds: refill_period}
})

const perMinute = z
  .int()
  .min(1)
  .max(MAX_TOKENS)
  .describe('Tokens per minute.')
  .transform((amount): Rate => ({capacity: amount, refillAmount: amount, refillPeriodSeconds: 60}))

const rate = z.union([rateText, perMinute, rateFields]).meta({id: 'limit'})

/** By name; sorted. */
const limits = entriesOf('limits', limitName, rate)
  .meta({
    id: 'limits',
    description: 'All limits of the scope by name; limits that are not listed are removed.',
    minProperties: 1,
  })
  .transform(rates =>
    Object.entries(rates)
      .map(([name, {capacity, refillAmount, refillPeriodSeconds}]): Limit => {
        return {name, capacity, refillAmount, refillPeriodSeconds}
      })
      .sort((a, b) => byText(a.name, b.name)),
  )

const someLimits = limits.refine(({length}) => length > 0, 'no limits are given; add one, such as rpm: 100/min')

/** A mapping whose only key is `limits`. */
const scope = fieldsOf('this', {limits: someLimits.optional()})
  .refine(({limits}) => limits !== undefined, 'no limits are given; add "limits"')
  .meta({id: 'scope', required: ['limits']})
  .transform(({limits = []}) => limits)

const mapOf = <T>(entries: Readonly<Record<string, T>>): ReadonlyMap<string, T> => new Map(Object.entries(entries))

const system = fieldsOf('the system section', {
  on_unavailable: z
    .preprocess(
      asText,
      z.enum(POLICIES, {
        error: ({input}) =>
          typeof input === 'string'
            ? notOneOf('a policy', input, POLICIES)
            : `must be allow or block, not ${describeValue(input)}`,
      }),
    )
    .optional()
    .describe('What limiters do when the table cannot be reached. If absent, the stored value stays.'),
  // Files of the Python system may state a policy with empty limits.
  limits: limits.optional(),
})
  .check(({value, issues}) => {
    const message =
      value.limits === undefined
        ? 'the section is empty; add "limits" or "on_unavailable", or leave the section out'
        : 'no limits are given; add one, such as rpm: 100/min'
    const path = value.limits === undefined ? [] : ['limits']
    const isEmpty = value.on_unavailable === undefined && (value.limits ?? []).length === 0
    if (isEmpty) issues.push({code: 'custom', input: value, path, message})
  })
  .meta({description: 'Settings that apply unless a resource or an entity has its own.', minProperties: 1})
  .transform(({limits = [], on_unavailable: onUnavailable}) => ({limits, onUnavailable}))

const entity = fieldsOf('an entity', {
  name: z
    .preprocess(asText, z.string({error: ({input}) => `must be text, not ${describeValue(input)}`}))
    .optional()
    .describe('Display name.'),
  parent: z
    .preprocess(asText, entityId.nullable())
    .optional()
    .describe('The entity whose budget it shares; null for none.'),
  cascade: z
    .preprocess(asRead, z.boolean({error: ({input}) => `must be true or false, not ${describeValue(input)}`}))
    .optional()
    .describe('Whether every request is also charged to the parent.'),
  metadata: metadataSchema.optional().describe('Free-form data.'),
  limits: someLimits.optional(),
  resources: entriesOf('resources', configResource, scope)
    .optional()
    .describe(`Limits of this entity for a resource; ${DEFAULT_RESOURCE} is the same as limits.`),
})
  .meta({description: 'Keys that are absent stay unchanged.'})
  .transform(({limits, resources = {}, ...record}): ManifestEntity => {
    const own = new Map(limits ? [[DEFAULT_RESOURCE, limits]] : [])
    for (const [name, theirs] of Object.entries(resources)) own.set(name, theirs)
    return {...stated(record), limits: own}
  })

/** Without the fields that are absent. */
function stated<T extends object>(record: T): {[Key in keyof T]?: Exclude<T[Key], undefined>} {
  const fields = Object.entries(record).filter(([, value]) => value !== undefined)
  return Object.fromEntries(fields) as {[Key in keyof T]?: Exclude<T[Key], undefined>}
}

/** A manifest. Its JSON Schema, for editors, is `templates/limits.schema.json`. */
export const manifestSchema = fieldsOf('a manifest', {
  namespace: z
    .preprocess(
      asText,
      checkedNameOf(
        checkNamespaceName,
        'must be a name',
        'the key "namespace" is missing; it names the namespace of this file',
      ).meta({...nameForm('namespace')}),
    )
    .describe('Name of the namespace that the file is for.'),
  system: system.optional(),
  resources: entriesOf('resources', resourceName, scope).optional().describe('Limits of all entities for a resource.'),
  entities: entriesOf('entities', entityId, entity)
    .optional()
    .describe('Entities, the parents whose budget they share, and their own limits.'),
})
  .meta({
    title: 'zael limits',
    description: 'The limits and entities of one namespace, for zael limits plan, apply, diff and validate.',
  })
  .transform(({namespace, system, resources = {}, entities = {}}): Manifest => {
    return {namespace, system, resources: mapOf(resources), entities: mapOf(entities)}
  })
