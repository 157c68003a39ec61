import type {Change} from '@aws-sdk/client-cloudformation'

/** What becomes of a resource. `maybe-replace`: CloudFormation decides when it gets there. */
export type ChangeAction = 'add' | 'change' | 'replace' | 'maybe-replace' | 'remove' | 'keep'

/** A property that changes; values are `null` where CloudFormation does not tell them. */
export interface PropertyChange {
  /** Such as `MemorySize`; `Tags` and the like for what is not a property. */
  readonly name: string
  readonly before: string | null
  readonly after: string | null
}

/** What is to happen to one resource. */
export interface PlannedResource {
  readonly action: ChangeAction
  /** Its name in the template. */
  readonly logicalId: string
  /** Its name on AWS; `null` for one that is to be made. */
  readonly physicalId: string | null
  readonly type: string
  readonly properties: readonly PropertyChange[]
}

const TABLE = 'AWS::DynamoDB::Table'

/** One entry of a change set in our words. */
export function toPlannedChange({ResourceChange: change = {}}: Change): PlannedResource {
  const properties = new Map<string, PropertyChange>()
  for (const {Target: target} of change.Details ?? []) {
    const name = target?.Name ?? target?.Attribute ?? ''
    const told = {name, before: target?.BeforeValue ?? null, after: target?.AfterValue ?? null}
    // The same property is listed once for every cause of its change, not always with values.
    if (name !== '' && (told.after !== null || !properties.has(name))) properties.set(name, told)
  }
  return {
    action: actionOf(change),
    logicalId: change.LogicalResourceId ?? '',
    physicalId: change.PhysicalResourceId || null,
    type: change.ResourceType ?? '',
    properties: [...properties.values()],
  }
}

/** Whether all data would be lost, or out of reach: never to be carried out. */
export function destroysTable({type, action}: PlannedResource): boolean {
  return type === TABLE && (action === 'replace' || action === 'remove' || action === 'keep')
}

function actionOf({Action, Replacement, PolicyAction}: NonNullable<Change['ResourceChange']>): ChangeAction {
  // What leaves the stack and stays on AWS is nobody's any more: that has a name of its own.
  if (Action === 'Remove') return PolicyAction?.startsWith('Retain') === true ? 'keep' : 'remove'
  if (Action === 'Modify')
    return Replacement === 'True' ? 'replace' : Replacement === 'Conditional' ? 'maybe-replace' : 'change'
  // What cannot be told beforehand may turn out to be anything.
  return Action === 'Dynamic' ? 'maybe-replace' : 'add'
}
