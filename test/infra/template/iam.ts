/** One statement of a policy, with intrinsic functions resolved. */
export interface Statement {
  readonly Effect: 'Allow' | 'Deny'
  readonly Action: string | readonly string[]
  readonly Resource: string | readonly string[]
  readonly Condition?: Readonly<Record<string, Readonly<Record<string, string | readonly string[]>>>>
}

export interface PolicyDocument {
  readonly Statement: readonly Statement[]
}

/** A call as AWS checks it against policies. */
export interface IamRequest {
  readonly action: string
  readonly resource: string
  /** Condition keys of the call, such as `dynamodb:LeadingKeys`. */
  readonly context: Readonly<Record<string, readonly string[]>>
}

/** Whether policies allow a call: some statement allows it and none denies it. */
export function isAllowed(policies: readonly PolicyDocument[], request: IamRequest): boolean {
  const matching = policies.flatMap(({Statement}) => Statement).filter(statement => applies(statement, request))
  return matching.length > 0 && matching.every(({Effect}) => Effect === 'Allow')
}

function applies({Action, Resource, Condition = {}}: Statement, request: IamRequest): boolean {
  return (
    list(Action).some(action => like(action.toLowerCase(), request.action.toLowerCase())) &&
    list(Resource).some(resource => like(resource, request.resource)) &&
    Object.entries(Condition).every(([operator, tests]) =>
      Object.entries(tests).every(([key, wanted]) => holds(operator, request.context, key, list(wanted))),
    )
  )
}

function holds(operator: string, context: IamRequest['context'], key: string, wanted: readonly string[]): boolean {
  const values = context[key]
  const patterns = wanted.flatMap(pattern => substituted(pattern, context))
  const matches = (value: string) => patterns.some(pattern => like(pattern, value))
  switch (operator) {
    case 'Null':
      return wanted[0] === String(values === undefined)
    case 'StringEquals':
      return values?.some(value => patterns.includes(value)) === true
    case 'StringLike':
      return values?.some(matches) === true
    // Negated operators are true when there is nothing to compare.
    case 'StringNotEquals':
      return !(values ?? []).some(value => patterns.includes(value))
    case 'ForAllValues:StringLike':
      return (values ?? []).every(matches)
    default:
      throw new Error(`this evaluator does not know ${operator}`)
  }
}

/** A pattern with an undefined variable matches nothing. */
function substituted(pattern: string, context: IamRequest['context']): string[] {
  const variables = [...pattern.matchAll(/\$\{([^}]+)\}/g)].map(([, name]) => name ?? '')
  if (variables.some(name => context[name] === undefined)) return []
  return [pattern.replaceAll(/\$\{([^}]+)\}/g, (_, name) => context[name]?.[0] ?? '')]
}

function like(pattern: string, value: string): boolean {
  const source = pattern
    .replaceAll(/[.+^${}()|[\]\\]/g, '\\$&')
    .replaceAll('*', '.*')
    .replaceAll('?', '.')
  return new RegExp(`^${source}$`, 's').test(value)
}

function list(value: string | readonly string[]): readonly string[] {
  return typeof value === 'string' ? [value] : value
}
