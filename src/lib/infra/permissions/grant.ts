/** Conditions of a policy statement: operator → condition key → value. */
export type GrantConditions = Readonly<Record<string, Readonly<Record<string, string>>>>

export interface PolicyGrant {
  readonly actions: readonly string[]
  /** ARNs, with `*` where a part is not known; `*` alone for actions that IAM cannot restrict. */
  readonly resources: readonly string[]
  readonly conditions?: GrantConditions
}

/** A role may be passed to one service only. */
export function passedTo(service: 'lambda' | 'cloudformation'): GrantConditions {
  return {StringEquals: {'iam:PassedToService': `${service}.amazonaws.com`}}
}
