interface Statement {
  readonly Effect: 'Allow'
  readonly Action: readonly string[]
  readonly Resource: readonly string[]
  readonly Condition?: GrantConditions
}

export interface PolicyDocument {
  readonly Version: '2012-10-17'
  readonly Statement: readonly Statement[]
}

/** Characters without white space; IAM's limit for a managed policy. */
export const MAX_POLICY_LENGTH = 6144

export function policyLength(policy: PolicyDocument): number {
  return JSON.stringify(policy).length
}

export function policiesOf(grants: readonly PolicyGrant[]): PolicyDocument[] {
  const policies: PolicyDocument[] = []
  let open: Statement[] = []
  for (const statement of statementsOf(grants)) {
    if (open.length > 0 && policyLength(toPolicy([...open, statement])) > MAX_POLICY_LENGTH) {
      policies.push(toPolicy(open))
      open = []
    }
    open.push(statement)
  }
  return open.length === 0 ? policies : [...policies, toPolicy(open)]
}

function statementsOf(grants: readonly PolicyGrant[]): Statement[] {
  const resourcesOf = new Map<string, {action: string; resources: Set<string>; conditions: PolicyGrant['conditions']}>()
  for (const {actions, resources, conditions} of grants) {
    for (const action of actions) {
      const key = `${action} ${JSON.stringify(conditions ?? {})}`
      const known = resourcesOf.get(key)?.resources ?? []
      resourcesOf.set(key, {action, conditions, resources: new Set([...known, ...resources])})
    }
  }
  const statements = new Map<string, Statement>()
  for (const {action, resources, conditions} of resourcesOf.values()) {
    const Resource = resources.has('*') ? ['*'] : [...resources].sort()
    const key = JSON.stringify([Resource, conditions ?? {}])
    const Action = [...(statements.get(key)?.Action ?? []), action].sort()
    statements.set(key, {Effect: 'Allow', Action, Resource, ...(conditions ? {Condition: conditions} : {})})
  }
  return [...statements.values()].sort((a, b) => ((a.Action[0] ?? '') < (b.Action[0] ?? '') ? -1 : 1))
}

function toPolicy(statements: readonly Statement[]): PolicyDocument {
  return {Version: '2012-10-17', Statement: statements}
}

/** Operator → condition key → value. */
export type GrantConditions = Readonly<Record<string, Readonly<Record<string, string>>>>

export interface PolicyGrant {
  readonly actions: readonly string[]
  /** ARNs, with `*` for unknown parts; `*` alone for actions that IAM cannot restrict. */
  readonly resources: readonly string[]
  readonly conditions?: GrantConditions
}
