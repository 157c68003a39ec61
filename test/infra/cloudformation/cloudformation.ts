import type {Account} from './account.js'
import {checkChangeSetType, checkExecutable, describeChangeSet, planChangeSet} from './change-set-actions.js'
import {DriftDetections, resourceDrifts} from './drift-actions.js'
import {deleteAll} from './operations.js'
import {CloudFormationError, type Fields, validationError} from './query-protocol.js'
import {type ChangeSetState, StackState} from './stacks.js'

const PAGE = 25

/** CloudFormation as a state machine: its responses depend on earlier calls, not on time. */
export class CloudFormation {
  readonly account: Account
  readonly drift = new DriftDetections()
  /** Why creating, updating or deleting a resource fails, by logical id. */
  readonly failures = new Map<string, string>()
  /** How AWS lists a resource that a drift-aware change set creates again is not documented. */
  recreatedAs: 'Add' | 'Modify' = 'Add'
  /** How many steps of an operation happen between two reads of the stack or its events. */
  stepsPerRead = 40
  readonly #stacks: StackState[] = []

  constructor(account: Account) {
    this.account = account
  }

  /** The stack of that name that was not deleted. */
  stack(name: string): StackState | undefined {
    return this.#stacks.find(each => each.name === name && !each.isDeleted)
  }

  /** Answers one action. */
  async answer(action: string, input: Fields): Promise<Fields> {
    const act = this.#actions[action]
    if (!act) throw new CloudFormationError('InvalidAction', `Could not find operation ${action}`)
    return act(input)
  }

  readonly #actions: Readonly<Record<string, (input: Fields) => Promise<Fields>>> = {
    DescribeStacks: async ({StackName}) => {
      const stack = this.#need(StackName)
      await stack.advance(this.stepsPerRead)
      return {Stacks: [described(stack)]}
    },
    DescribeStackEvents: async ({StackName, NextToken = '0'}) => {
      const stack = this.#need(StackName)
      if (NextToken === '0') await stack.advance(this.stepsPerRead)
      const events = stack.events.toReversed().map(({id, at, step}) => {
        const resource = step.logicalId === null ? undefined : stack.resources.get(step.logicalId)
        const wanted = stack.resolved?.resources.find(({logicalId}) => logicalId === step.logicalId)
        return {
          EventId: id,
          StackId: stack.id,
          StackName: stack.name,
          LogicalResourceId: step.logicalId ?? stack.name,
          PhysicalResourceId: step.logicalId === null ? stack.id : (step.physicalId ?? resource?.physicalId ?? ''),
          ResourceType: step.logicalId === null ? 'AWS::CloudFormation::Stack' : (resource ?? wanted)?.type,
          ResourceStatus: step.status,
          ResourceStatusReason: step.reason,
          Timestamp: at,
        }
      })
      return paged('StackEvents', events, NextToken)
    },
    ListStackResources: async ({StackName, NextToken = '0'}) => {
      const resources = [...this.#need(StackName).resources.values()].map(each => ({
        LogicalResourceId: each.logicalId,
        PhysicalResourceId: each.physicalId,
        ResourceType: each.type,
        ResourceStatus: each.status,
        LastUpdatedTimestamp: new Date(),
      }))
      return paged('StackResourceSummaries', resources, NextToken)
    },
    ListStacks: async () => ({
      StackSummaries: this.#stacks
        .filter(each => each.isDeleted)
        .map(each => ({...described(each), DeletionTime: each.deletedAt, Tags: undefined, Outputs: undefined})),
    }),
    GetTemplate: async ({StackName}) => ({TemplateBody: this.#need(StackName).template}),
    CreateChangeSet: async input => {
      const known = this.stack(input.StackName)
      checkChangeSetType(known, input)
      const stack = known ?? this.#newStack(input.StackName)
      const options = {recreatedAs: this.recreatedAs, isOwned: (id: string) => this.#isOwned(id)}
      const changeSet = await planChangeSet(stack, input, options)
      if (!known) stack.tags = changeSet.tags
      stack.changeSets.set(changeSet.id, changeSet)
      return {Id: changeSet.id, StackId: stack.id}
    },
    DescribeChangeSet: async ({ChangeSetName}) => {
      const [stack, changeSet] = this.#changeSet(ChangeSetName)
      const {Changes, ...rest} = describeChangeSet(stack, changeSet)
      return {...rest, ...(Changes && {Changes})}
    },
    ListChangeSets: async ({StackName}) => {
      const stack = this.#need(StackName)
      const summaries = [...stack.changeSets.values()]
      return {Summaries: summaries.map(({id, name}) => ({ChangeSetId: id, ChangeSetName: name, StackId: stack.id}))}
    },
    DescribeEvents: async ({ChangeSetName}) => ({OperationEvents: this.#changeSet(ChangeSetName)[1].validationErrors}),
    DeleteChangeSet: async ({ChangeSetName}) => {
      for (const stack of this.#stacks) stack.changeSets.delete(ChangeSetName)
      return {}
    },
    ExecuteChangeSet: async ({ChangeSetName, RetainExceptOnCreate}) => {
      const [stack, changeSet] = this.#changeSet(ChangeSetName)
      checkExecutable(stack, changeSet)
      // For the types of resources in the events of a creation.
      stack.resolved ??= changeSet.resolved
      await stack.begin(changeSet, RetainExceptOnCreate === 'true')
      return {}
    },
    DeleteStack: async ({StackName}) => {
      const stack = this.#find(StackName)
      if (!stack || stack.isDeleted) return {}
      // A stack without resources is gone at once.
      const isEmpty = stack.status === 'REVIEW_IN_PROGRESS'
      await stack.operate(deleteAll(stack))
      if (isEmpty) await stack.advance(Number.POSITIVE_INFINITY)
      return {}
    },
    DetectStackDrift: async ({StackName}) => this.drift.start(this.#need(StackName)),
    DescribeStackDriftDetectionStatus: async ({StackDriftDetectionId}) => this.drift.status(StackDriftDetectionId),
    DescribeStackResourceDrifts: async ({StackName, StackResourceDriftStatusFilters: wanted = [], NextToken = '0'}) => {
      const drifts = await resourceDrifts(this.#need(StackName))
      const kept = drifts.filter(each => wanted.length === 0 || wanted.includes(each.StackResourceDriftStatus))
      return paged('StackResourceDrifts', kept, NextToken, 1)
    },
  }

  #newStack(name: string): StackState {
    const stack = new StackState(name, this.#stacks.length + 1, this.account, this.failures)
    this.#stacks.push(stack)
    return stack
  }

  /** By name, only stacks that exist; by ARN, deleted ones too. */
  #find(nameOrId: string): StackState | undefined {
    return this.#stacks.find(each => each.id === nameOrId) ?? this.stack(nameOrId)
  }

  #need(nameOrId: string): StackState {
    const stack = this.#find(nameOrId)
    if (!stack) throw validationError(`Stack with id ${nameOrId} does not exist`)
    return stack
  }

  #changeSet(id: string): [StackState, ChangeSetState] {
    for (const stack of this.#stacks) {
      const changeSet = stack.changeSets.get(id)
      if (changeSet) return [stack, changeSet]
    }
    throw new CloudFormationError('ChangeSetNotFound', `ChangeSet [${id}] does not exist`, 404)
  }

  #isOwned(physicalId: string): boolean {
    return this.#stacks.some(
      each => !each.isDeleted && [...each.resources.values()].some(resource => resource.physicalId === physicalId),
    )
  }
}

function described(stack: StackState): Fields {
  return {
    StackId: stack.id,
    StackName: stack.name,
    StackStatus: stack.status,
    StackStatusReason: stack.reason,
    CreationTime: new Date(0),
    RoleARN: stack.role,
    Tags: Object.entries(stack.tags).map(([Key, Value]) => ({Key, Value})),
    Parameters: Object.entries(stack.resolved?.parameters ?? {}).map(([ParameterKey, ParameterValue]) => ({
      ParameterKey,
      ParameterValue,
    })),
    Outputs: stack.outputs(),
  }
}

function paged(name: string, items: readonly Fields[], token: string, size = PAGE): Fields {
  const from = Number(token)
  const next = from + size
  return {[name]: items.slice(from, next), ...(next < items.length && {NextToken: String(next)})}
}
