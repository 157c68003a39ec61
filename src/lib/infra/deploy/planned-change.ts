import type {Change} from '@aws-sdk/client-cloudformation'

/**
 * What happens to a resource. `maybe-replace`: CloudFormation decides during the update. `import`: it exists and becomes
 * part of the stack. `restore`: it is gone and is created again. `sync`: nothing, it is already as the template has it.
 */
export type ChangeAction =
  | 'add'
  | 'import'
  | 'restore'
  | 'change'
  | 'sync'
  | 'replace'
  | 'maybe-replace'
  | 'remove'
  | 'keep'

/** A property that changes; values are `null` where CloudFormation does not report them. */
interface PropertyChange {
  /** Such as `MemorySize`; for attributes that are not properties, the attribute, such as `Tags`. */
  readonly name: string
  readonly before: string | null
  readonly after: string | null
}

export interface PlannedResource {
  readonly action: ChangeAction
  readonly logicalId: string
  /** Its name on AWS; `null` for a new resource. */
  readonly physicalId: string | null
  readonly type: string
  readonly properties: readonly PropertyChange[]
}

export interface ChangeSet {
  readonly id: string
  readonly name: string
  readonly stackId: string
  /** The stack was created for this change set and is empty. */
  readonly hasOwnStack: boolean
  readonly changes: readonly PlannedResource[]
}

const TABLE = 'AWS::DynamoDB::Table'

export function toPlannedChange({ResourceChange: change = {}}: Change): PlannedResource {
  const properties = new Map<string, PropertyChange>()
  for (const {Target: target} of change.Details ?? []) {
    const name = target?.Name ?? target?.Attribute ?? ''
    const property = {name, before: target?.BeforeValue ?? null, after: target?.AfterValue ?? null}
    // A property is listed once per cause of its change, not always with values.
    if (name !== '' && (property.after !== null || !properties.has(name))) properties.set(name, property)
  }
  return {
    action: actionOf(change),
    logicalId: change.LogicalResourceId ?? '',
    physicalId: change.PhysicalResourceId || null,
    type: change.ResourceType ?? '',
    properties: [...properties.values()],
  }
}

/** Whether the table's data would be lost or detached from the stack; such a plan is never executed. */
export function destroysTable({type, action}: PlannedResource): boolean {
  return type === TABLE && (action === 'replace' || action === 'remove' || action === 'keep' || action === 'restore')
}

function actionOf(change: NonNullable<Change['ResourceChange']>): ChangeAction {
  const {Action, Replacement, PolicyAction, ResourceDriftStatus} = change
  if (ResourceDriftStatus === 'DELETED' && Action !== 'Remove') return 'restore'
  if (Action === 'Import') return 'import'
  if (Action === 'SyncWithActual') return 'sync'
  // `keep`: the resource is removed from the stack but not deleted.
  if (Action === 'Remove') return PolicyAction?.startsWith('Retain') === true ? 'keep' : 'remove'
  if (Action === 'Modify')
    return Replacement === 'True' ? 'replace' : Replacement === 'Conditional' ? 'maybe-replace' : 'change'
  // For `Dynamic` the change is not known before the update.
  return Action === 'Dynamic' ? 'maybe-replace' : 'add'
}
