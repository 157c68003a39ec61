import {InvalidInput} from './errors.js'

/** Stands for "every resource of this entity" in entity-level configuration; never a resource of its own. */
export const DEFAULT_RESOURCE = '_default_'

/** The infrastructure limit that measures write pressure on a bucket item; invisible to users. */
export const WRITE_PRESSURE_LIMIT = 'wcu'

/** Holds the namespace registry and the version record. */
export const REGISTRY_NAMESPACE = '_'

interface NameRule {
  readonly what: string
  readonly pattern: RegExp
  readonly longest: number
  /** The pattern in words. */
  readonly allowed: string
  readonly hint?: string
  readonly reserved?: ReadonlySet<string>
  readonly reservedBecause?: string
}

// Key attributes of the table and its indexes, and the expiry attribute. A limit or resource of that name would
// overwrite one of them where records hold an attribute named after it (usage snapshots, the resource registry).
const STRUCTURAL_ATTRIBUTES = [
  'PK',
  'SK',
  ...[1, 2, 3, 4].flatMap(index => [`GSI${index}PK`, `GSI${index}SK`]),
  ...[1, 2, 3, 4, 5].map(index => `LSI${index}SK`),
  'ttl',
]

const RULES = {
  entity: {
    what: 'entity id',
    pattern: /^[a-zA-Z0-9][a-zA-Z0-9_.\-:@]*$/,
    longest: 256,
    allowed: 'a letter or digit, then letters, digits and _ . - : @',
    // Other clients of the table accept nothing else.
    hint: 'Replace other characters before you call zael, the same way everywhere: auth0|123 becomes auth0:123.',
  },
  resource: {
    what: 'resource name',
    // The colon is known to other clients since 0.17: `llama3:8b`.
    pattern: /^[a-zA-Z][a-zA-Z0-9_.\-/:]*$/,
    longest: 64,
    allowed: 'a letter, then letters, digits and _ . - / :',
    reserved: new Set(STRUCTURAL_ATTRIBUTES),
    reservedBecause: 'it is the name of an attribute that every record has',
  },
  limit: {
    what: 'limit name',
    pattern: /^[a-zA-Z][a-zA-Z0-9_.-]*$/,
    longest: 64,
    allowed: 'a letter, then letters, digits and _ . -',
    reserved: new Set([
      ...STRUCTURAL_ATTRIBUTES,
      WRITE_PRESSURE_LIMIT,
      ...['entity_id', 'resource', 'window', 'window_start', 'total_events'],
    ]),
    reservedBecause: 'usage records or buckets use that name themselves',
  },
  namespace: {
    what: 'namespace name',
    pattern: /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/,
    longest: 128,
    allowed: 'a letter or digit, then letters, digits and _ . -',
  },
  stack: {
    what: 'stack name',
    pattern: /^[A-Za-z][A-Za-z0-9-]*$/,
    longest: 55,
    allowed: 'a letter, then letters, digits and -',
  },
} satisfies Record<string, NameRule>

export interface NameForm {
  readonly pattern: string
  readonly maxLength: number
  readonly not?: {readonly enum: readonly string[]}
}

export function nameForm(kind: keyof typeof RULES): NameForm {
  const {pattern, longest, reserved}: NameRule = RULES[kind]
  return {pattern: pattern.source, maxLength: longest, ...(reserved && {not: {enum: [...reserved]}})}
}

export const checkEntityId = (name: string): string => check(RULES.entity, name)
export const checkResourceName = (name: string): string => check(RULES.resource, name)
export const checkLimitName = (name: string): string => check(RULES.limit, name)
export const checkNamespaceName = (name: string): string => check(RULES.namespace, name)
export const checkStackName = (name: string): string => check(RULES.stack, name)

/** Whether a limit may have this name, reserved ones included. */
export function isLimitName(name: string): boolean {
  return name.length <= RULES.limit.longest && RULES.limit.pattern.test(name)
}

/** The resource of an entity-level configuration: a resource, or `_default_`. */
export function checkConfigResource(name: string): string {
  return name === DEFAULT_RESOURCE ? name : checkResourceName(name)
}

/** A namespace id is opaque; it only must not break key parsing (first `/`) or look like a command-line flag. */
export function isNamespaceId(id: string): boolean {
  return /^[A-Za-z0-9_][A-Za-z0-9_-]*$/.test(id) && id !== REGISTRY_NAMESPACE
}

/** Limit names that the Python client cannot handle in its expressions; they work here, so this is only a warning. */
export function isTroublesomeForPython(limitName: string): boolean {
  return /[.-]/.test(limitName)
}

function check(rule: NameRule, name: string): string {
  // From JavaScript anything can arrive; the pattern would accept a number.
  if (typeof name !== 'string') throw invalid(rule, name, 'it is not a string')
  if (name === '') throw invalid(rule, name, 'it is empty')
  if (name.length > rule.longest)
    throw invalid(rule, name, `it has ${name.length} characters; at most ${rule.longest} are possible`)
  if (!rule.pattern.test(name)) throw invalid(rule, name, `it must be ${rule.allowed}`, rule.hint)
  if (rule.reserved?.has(name)) throw invalid(rule, name, `it is reserved: ${rule.reservedBecause}`)
  return name
}

function invalid(rule: NameRule, name: string, why: string, hint?: string): InvalidInput {
  return new InvalidInput('name.invalid', `${JSON.stringify(name)} is not a valid ${rule.what}: ${why}.`, {
    ...(hint !== undefined && {hint}),
    details: {name, what: rule.what},
  })
}
