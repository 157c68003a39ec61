import {areTagsEqual, planChanges, type ResourcePlan} from './planned-changes.js'
import {CloudFormationError, type Fields, listOf, validationError} from './query-protocol.js'
import {resolveTemplate} from './stack-template.js'
import {ACCOUNT_ID, type ChangeSetState, REGION, type StackState} from './stacks.js'

const NO_CHANGES =
  "The submitted information didn't contain changes. Submit different information to create a change set."
const EARLY_VALIDATION =
  'The following hook(s)/validation failed: [AWS::EarlyValidation::ResourceExistenceCheck]. To troubleshoot Early ' +
  'Validation errors, use the DescribeEvents API for detailed failure information.'

/** Plans a change set, including CloudFormation's early validation. */
export async function planChangeSet(
  stack: StackState,
  input: Fields,
  {recreatedAs, isOwned}: {recreatedAs: 'Add' | 'Modify'; isOwned: (physicalId: string) => boolean},
): Promise<ChangeSetState> {
  const previous = stack.resolved?.parameters ?? {}
  const given = Object.fromEntries(
    listOf(input.Parameters).map(({ParameterKey, ParameterValue, UsePreviousValue}) => {
      return [ParameterKey, UsePreviousValue === 'true' ? previous[ParameterKey] : ParameterValue]
    }),
  )
  const tags = Object.fromEntries(listOf(input.Tags).map(({Key, Value}) => [Key, Value]))
  const resolved = resolveTemplate(input.TemplateBody, given, {stack: stack.name, region: REGION})
  const isNew = stack.resources.size === 0
  const revertsDrift = input.DeploymentMode === 'REVERT_DRIFT'
  const plans = await planChanges({
    account: stack.account,
    before: stack.resources,
    wanted: resolved.resources,
    imports: input.ImportExistingResources === 'true',
    revertsDrift,
    areTagsChanged: !isNew && !areTagsEqual(tags, stack.tags),
    recreatedAs,
  })
  const conflicts = await nameConflicts(stack, plans, isOwned)
  return {
    id: `arn:aws:cloudformation:${REGION}:${ACCOUNT_ID}:changeSet/${input.ChangeSetName}/${stack.number}`,
    name: input.ChangeSetName,
    plans,
    resolved,
    templateBody: input.TemplateBody,
    tags,
    role: input.RoleARN,
    refusal: conflicts.length > 0 ? EARLY_VALIDATION : plans.length === 0 ? NO_CHANGES : undefined,
    validationErrors: conflicts,
    revertsDrift,
    executionStatus: 'AVAILABLE',
    reads: 0,
  }
}

/** New resources whose names are taken, and imports of resources that belong to another stack. */
async function nameConflicts(
  {account}: StackState,
  plans: readonly ResourcePlan[],
  isOwned: (physicalId: string) => boolean,
): Promise<object[]> {
  const found: object[] = []
  for (const {action, logicalId, wanted, before} of plans) {
    if (!wanted || wanted.name === null || before) continue
    const isTaken = action === 'Add' && (await account.find(wanted.type, wanted.name)) !== undefined
    if (!isTaken && !(action === 'Import' && isOwned(wanted.name))) continue
    found.push({
      EventId: `validation-${logicalId}`,
      EventType: 'VALIDATION_ERROR',
      OperationType: 'CREATE_CHANGESET',
      LogicalResourceId: logicalId,
      PhysicalResourceId: wanted.name,
      ResourceType: wanted.type,
      ValidationName: 'NAME_CONFLICT_VALIDATION',
      ValidationStatus: 'FAILED',
      ValidationFailureMode: 'FAIL',
      ValidationStatusReason: `Resource of type '${wanted.type}' with identifier '${wanted.name}' already exists.`,
      ValidationPath: `/Resources/${logicalId}`,
    })
  }
  return found
}

/** A change set as it is described: planned with the second read. */
export function describeChangeSet(stack: StackState, changeSet: ChangeSetState): Fields {
  changeSet.reads++
  const common = {
    ChangeSetName: changeSet.name,
    ChangeSetId: changeSet.id,
    StackId: stack.id,
    StackName: stack.name,
    ...(changeSet.revertsDrift && {DeploymentMode: 'REVERT_DRIFT'}),
  }
  if (changeSet.reads < 2) return {...common, Status: 'CREATE_IN_PROGRESS', ExecutionStatus: 'UNAVAILABLE'}
  if (changeSet.refusal !== undefined)
    return {...common, Status: 'FAILED', StatusReason: changeSet.refusal, ExecutionStatus: 'UNAVAILABLE'}
  return {
    ...common,
    Status: 'CREATE_COMPLETE',
    ExecutionStatus: changeSet.executionStatus,
    Changes: changeSet.plans.map(({change}) => ({Type: 'Resource', ResourceChange: change})),
  }
}

/** Throws unless a change set of this type can be made for the stack. */
export function checkChangeSetType(
  stack: StackState | undefined,
  {StackName, ChangeSetType, ChangeSetName}: Fields,
): void {
  if (ChangeSetType !== 'CREATE' && !stack) throw validationError(`Stack [${StackName}] does not exist`)
  if (stack?.isBusy) throw validationError(`Stack:${stack.id} is in ${stack.status} state and can not be updated.`)
  if (ChangeSetType === 'CREATE' && stack && stack.status !== 'REVIEW_IN_PROGRESS')
    throw validationError(
      `Stack [${StackName}] already exists and cannot be created again with the changeSet [${ChangeSetName}].`,
    )
  if (ChangeSetType === 'UPDATE' && stack?.status.startsWith('ROLLBACK_'))
    throw validationError(`Stack:${stack.id} is in ${stack.status} state and can not be updated.`)
}

/** Throws unless the change set can be executed now. */
export function checkExecutable(stack: StackState, changeSet: ChangeSetState): void {
  if (changeSet.executionStatus !== 'AVAILABLE' || changeSet.refusal !== undefined) {
    const message = `ChangeSet [${changeSet.id}] cannot be executed in its current execution status of [${changeSet.executionStatus}]`
    throw new CloudFormationError('InvalidChangeSetStatus', message)
  }
  if (stack.isBusy) throw validationError(`Stack:${stack.id} is in ${stack.status} state and can not be updated.`)
}
