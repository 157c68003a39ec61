import type {Parameter} from '@aws-sdk/client-cloudformation'
import {TableMissing} from '../../dynamo/errors.js'
import type {Table} from '../../repository/table/table.js'
import {readVersion} from '../../repository/table/version.js'
import {checkCompatibility} from '../../repository/table/version-compatibility.js'
import type {Aws} from '../aws/clients.js'
import type {WaitOptions} from '../aws/poll.js'
import {parameterText} from '../options/option.js'
import {parametersOf, STACK_OPTIONS, type StackOptionValues} from '../options/options.js'
import {checkCombination} from '../options/rules.js'
import {omitTags, stackTags} from '../options/tags.js'
import {type DeployedStack, isEmptyStack, readStack, readStackResources} from '../stacks/reader.js'
import {loadStackTemplate} from '../stacks/template.js'
import {type ChangeSet, createChangeSet, discardChangeSet} from './change-set.js'
import {
  checkCloudFormationName,
  foreignStack,
  needsIndexRebuild,
  pythonStack,
  tableWithoutStack,
  unusableStack,
  wouldLoseTable,
} from './errors.js'
import {destroysTable} from './planned-change.js'
import {planCode, type RunningCode, readRunningCode} from './planned-code.js'
import {readResourceIndex, requestedResourceIndex, resourceIndexOption} from './resource-index.js'
import {checkStreamStart} from './stream-start.js'

/** What is asked for. */
export interface DeployRequest {
  readonly stack: string
  /** Of this zael. */
  readonly version: string
  /** Only what was stated; the rest keeps its value, or its default on a new stack. */
  readonly options: StackOptionValues
  readonly tags: Readonly<Record<string, string>>
  /** Keys of tags that the stack is to lose. */
  readonly removedTags: readonly string[]
}

/** A parameter that is to differ from what is deployed, or from its default on a new stack. */
export interface ParameterChange {
  readonly option: string
  readonly before: string
  readonly after: string
}

/** What a deployment is going to do. */
export interface DeployPlan {
  readonly stack: string
  readonly region: string
  /** `recreate`: what a failed first deployment left has to go before anything can be planned. */
  readonly action: 'create' | 'update' | 'none' | 'recreate'
  readonly parameters: readonly ParameterChange[]
  readonly changeSet: ChangeSet | undefined
  /** Whether the code of the aggregator is to be uploaded; `none`: there is no aggregator, or nothing is known yet. */
  readonly code: 'new' | 'current' | 'none'
  /** Of the stack; `null` when there is none yet. */
  readonly stackId: string | null
  /** The failed deployment that is to be cleared away has left its table, and nobody has written to it. */
  readonly hasEmptyTable: boolean
  /** `null`: there is no function yet. */
  readonly runningCode: RunningCode | null
}

// A first deployment that failed leaves a stack that can only be deleted.
const NEVER_CREATED = new Set(['ROLLBACK_COMPLETE', 'ROLLBACK_FAILED', 'CREATE_FAILED'])
const USABLE = new Set([
  'CREATE_COMPLETE',
  'UPDATE_COMPLETE',
  'UPDATE_ROLLBACK_COMPLETE',
  'IMPORT_COMPLETE',
  'IMPORT_ROLLBACK_COMPLETE',
])

/** Finds out what would change and makes a change set of it; refuses what is not ours and what would lose data. */
export async function planDeploy(
  aws: Aws,
  table: Table,
  request: DeployRequest,
  waiting: WaitOptions,
): Promise<DeployPlan> {
  const {stack} = request
  checkCloudFormationName(stack)
  const stated = parametersOf(request.options)
  const existing = await readStack(aws, stack)
  const unknown = {stackId: existing?.id ?? null, hasEmptyTable: false, runningCode: null}
  const common = {stack, region: await aws.region(), ...unknown}
  const deployed = existing && !isEmptyStack(existing) ? existing : undefined
  const parameters = parameterChanges(stated, deployed?.parameters)
  if (deployed) {
    checkOwner(deployed)
    if (NEVER_CREATED.has(deployed.status)) {
      const hasEmptyTable = await hasEmptyLeftover(table)
      return {...common, action: 'recreate', parameters, changeSet: undefined, code: 'none', hasEmptyTable}
    }
    if (!USABLE.has(deployed.status)) throw unusableStack(deployed)
  }
  checkCombination(stack, {...deployed?.parameters, ...stated})
  await checkTable(table, request, deployed)
  const resources = deployed ? await readStackResources(aws, stack) : []
  if (deployed) checkStreamStart(deployed, stated, resources)
  // All that can fail comes before the change set, which would be left behind.
  const runningCode = await readRunningCode(aws, resources)

  const changeSet = await createChangeSet(
    aws,
    {
      stack,
      type: deployed ? 'UPDATE' : 'CREATE',
      template: await loadStackTemplate(),
      parameters: requestParameters(stated, deployed?.parameters),
      // Tags that are not named again are taken away.
      tags: stackTags(stack, request.version, omitTags({...deployed?.tags, ...request.tags}, request.removedTags)),
      changeSetName: `zael-${Math.floor(table.clock())}-${Buffer.from(table.randomBytes(4)).toString('hex')}`,
      isNewName: existing === undefined,
    },
    waiting,
  )
  const loss = changeSet?.changes.find(destroysTable)
  if (changeSet && loss) {
    await discardChangeSet(aws, changeSet)
    throw wouldLoseTable(stack, loss)
  }
  const code = planCode(runningCode, changeSet)
  const planned = {...common, runningCode, changeSet, code}
  if (!changeSet) return {...planned, action: 'none', parameters: []}
  return {...planned, stackId: changeSet.stackId, action: deployed ? 'update' : 'create', parameters}
}

/** Stops at a stack that is not zael's. */
export function checkOwner(stack: DeployedStack): void {
  if (stack.owner === 'zae-limiter') throw pythonStack(stack)
  if (stack.owner === 'other') throw foreignStack(stack)
}

/** Whether a failed first deployment left its table; throws when somebody has written to it, for then it is not touched. */
export async function hasEmptyLeftover({transport, name: TableName}: Table): Promise<boolean> {
  try {
    const {Items = []} = await transport.send('Scan', {TableName, Limit: 1, ConsistentRead: true})
    if (Items.length > 0) throw tableWithoutStack(TableName)
    return true
  } catch (error) {
    if (error instanceof TableMissing) return false
    throw error
  }
}

/** Whether the table can become what is asked for. */
async function checkTable(table: Table, request: DeployRequest, deployed: DeployedStack | undefined): Promise<void> {
  const {stack, options, version} = request
  const now = await readResourceIndex(table)
  if (!deployed && now !== undefined) throw tableWithoutStack(stack)
  if (now !== undefined) {
    const {record, hasLegacyRecord} = await readVersion(table)
    checkCompatibility(record, version, hasLegacyRecord)
  }
  const asked = requestedResourceIndex(options)
  // Without the index, which is how a rebuild begins, it can be made in any way.
  if (asked === undefined || now === undefined || now === null || now === asked) return
  throw needsIndexRebuild(stack, resourceIndexOption(now), resourceIndexOption(asked))
}

/** What is not stated keeps its value; what the deployed template did not know yet gets its default. */
function requestParameters(
  stated: Readonly<Record<string, string>>,
  deployed: Readonly<Record<string, string>> = {},
): Parameter[] {
  return STACK_OPTIONS.flatMap(({parameter: ParameterKey}): Parameter[] => {
    const ParameterValue = stated[ParameterKey]
    if (ParameterValue !== undefined) return [{ParameterKey, ParameterValue}]
    return ParameterKey in deployed ? [{ParameterKey, UsePreviousValue: true}] : []
  })
}

function parameterChanges(
  stated: Readonly<Record<string, string>>,
  deployed: Readonly<Record<string, string>> = {},
): ParameterChange[] {
  return STACK_OPTIONS.flatMap(option => {
    const before = deployed[option.parameter] ?? parameterText(option, option.default)
    const after = stated[option.parameter] ?? before
    return after === before ? [] : [{option: option.name, before, after}]
  })
}
