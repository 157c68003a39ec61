import type {Authorisation} from './authorisations.js'
import {isAllowed, type PolicyDocument} from './iam.js'
import type {Recorded} from './journeys.js'
import {stackWith} from './stack-model.js'

const {Resources, Outputs} = stackWith()
export const TABLE_ARN = Outputs.TableArn.Value

const policy = (logicalId: string): PolicyDocument[] => [Resources[logicalId].Properties.PolicyDocument]

/** The policies of the stack. */
export const POLICIES = {
  ACQ: policy('AcquireOnlyPolicy'),
  FULL: policy('FullAccessPolicy'),
  READ: policy('ReadOnlyPolicy'),
  NS_ACQ: policy('NamespaceAcquirePolicy'),
  NS_FULL: policy('NamespaceFullAccessPolicy'),
  NS_READ: policy('NamespaceReadOnlyPolicy'),
  AGGREGATOR: Resources.AggregatorRole.Properties.Policies.map(
    ({PolicyDocument}: {PolicyDocument: PolicyDocument}) => PolicyDocument,
  ) as PolicyDocument[],
} as const

/** Whether a caller with that tag may make a call. */
export function lets(
  policies: readonly PolicyDocument[],
  {action, target, leadingKeys}: Authorisation,
  tag?: string,
): boolean {
  const resource = target === 'account' ? '*' : target === 'table' ? TABLE_ARN : `${TABLE_ARN}/${target}`
  const context = {
    ...(leadingKeys === undefined ? {} : {'dynamodb:LeadingKeys': [...new Set(leadingKeys)]}),
    ...(tag === undefined ? {} : {'aws:PrincipalTag/zael_namespace_id': [tag]}),
  }
  return isAllowed(policies, {action, resource, context})
}

/** The refused calls per step; empty: everything is allowed. */
export function refused(policies: readonly PolicyDocument[], steps: Recorded, tag?: string): Record<string, string[]> {
  const entries = [...steps].map(([step, calls]): [string, string[]] => [
    step,
    [...new Set(calls.filter(call => !lets(policies, call, tag)).map(({action, target}) => `${action} ${target}`))],
  ])
  return Object.fromEntries(entries.filter(([, calls]) => calls.length > 0))
}

/** Steps of which every call is allowed. */
export function possible(policies: readonly PolicyDocument[], steps: Recorded, tag?: string): string[] {
  const denied = refused(policies, steps, tag)
  // A step without calls needs no permission.
  return [...steps].filter(([step, calls]) => calls.length > 0 && !(step in denied)).map(([step]) => step)
}

export const isWrite = ({action}: Authorisation) => !/:(Get|BatchGet|Query|Scan|Describe|ConditionCheck)/.test(action)
export const inRegistry = ({leadingKeys = []}: Authorisation) => leadingKeys.some(key => key.startsWith('_/'))
