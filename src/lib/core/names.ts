import {InvalidInput} from './errors.js'

/** Means "every resource" in entity-level configuration; never a resource itself. */
export const DEFAULT_RESOURCE = '_default_'

/** Internal limit that measures write pressure on a bucket item; hidden from users. */
export const WRITE_PRESSURE_LIMIT = 'wcu'

export const REGISTRY_NAMESPACE = '_'

interface NameRule {
  readonly what: string
  readonly pattern: RegExp
  readonly longest: number
  readonly allowed: string
  readonly hint?: string
  readonly reserved?: ReadonlySet<string>
  readonly reservedBecause?: string
}

// Usage snapshots and the resource registry name attributes after limits or resources, which would overwrite these.
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
    // Other clients of the table reject other characters.
    hint: 'In code, encode other ids with encodeEntityId(). Adapters and commands do that themselves.',
  },
  resource: {
    what: 'resource name',
    // Other clients accept the colon since 0.17: `llama3:8b`.
    pattern: /^[a-zA-Z][a-zA-Z0-9_.\-/:]*$/,
    longest: 64,
    allowed: 'a letter, then letters, digits and _ . - / :',
    hint: 'In code, encode other names with encodeResourceName(). Adapters and commands do that themselves.',
    reserved: new Set(STRUCTURAL_ATTRIBUTES),
    reservedBecause: 'every record has an attribute of that name',
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
    reservedBecause: 'usage records or buckets use that name internally',
  },
  namespace: {
    what: 'namespace name',
    pattern: /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/,
    longest: 128,
    allowed: 'a letter or digit, then letters, digits and _ . -',
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

/** Also true for reserved names. */
export function isLimitName(name: string): boolean {
  return name.length <= RULES.limit.longest && RULES.limit.pattern.test(name)
}

export function checkConfigResource(name: string): string {
  return name === DEFAULT_RESOURCE ? name : checkResourceName(name)
}

/** Identifies the bucket of an entity for a resource. */
export interface BucketName {
  readonly entity: string
  readonly resource: string
}

/** Opaque, but it must not break key parsing (first `/`) or look like a command-line flag. */
export function isNamespaceId(id: string): boolean {
  return /^[A-Za-z0-9_][A-Za-z0-9_-]*$/.test(id) && id !== REGISTRY_NAMESPACE
}

/** The Python client cannot handle these names in its expressions. They work here, so only warn. */
export function isTroublesomeForPython(limitName: string): boolean {
  return /[.-]/.test(limitName)
}

function check(rule: NameRule, name: string): string {
  // JavaScript callers can pass anything; the pattern would accept a number.
  if (typeof name !== 'string') throw invalid(rule, name, 'it is not a string')
  if (name === '') throw invalid(rule, name, 'it is empty')
  if (name.length > rule.longest)
    throw invalid(rule, name, `it has ${name.length} characters, and the maximum is ${rule.longest}`)
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
