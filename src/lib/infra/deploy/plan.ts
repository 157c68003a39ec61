import type {Parameter} from '@aws-sdk/client-cloudformation'
import {TableMissing} from '../../dynamo/errors.js'
import {readResourceIndex} from '../../repository/table/resource-index.js'
import type {Table} from '../../repository/table/table.js'
import {readVersion} from '../../repository/table/version.js'
import {checkCompatibility} from '../../repository/table/version-compatibility.js'
import {compactTemplate, withoutItemsOf} from '../../schema/template-yaml.js'
import type {Aws} from '../aws/clients.js'
import type {WaitOptions} from '../aws/poll.js'
import {parameterText} from '../options/option.js'
import {parametersOf, STACK_OPTIONS, type StackOptionValues} from '../options/options.js'
import {checkCombination} from '../options/rules.js'
import {omitTags, stackTags} from '../options/tags.js'
import {ownKey} from '../permissions/own-grants.js'
import {type DeployedStack, isEmptyStack, readStack, readStackResources} from '../stacks/reader.js'
import {checkOwner, unusableStack} from '../stacks/refusals.js'
import {loadStackTemplate} from '../stacks/template.js'
import {type ChangeSet, createChangeSet, discardChangeSet} from './change-set.js'
import {checkCloudFormationName, needsIndexRebuild, tableWithoutStack, wouldLoseTable} from './errors.js'
import {destroysTable} from './planned-change.js'
import {planCode, type RunningCode, readRunningCode} from './planned-code.js'
import {requestedResourceIndex, resourceIndexOption} from './resource-index.js'
import {checkStreamStart} from './stream-start.js'
import {checkTemplateLength, passTemplate} from './template-upload.js'

/** A requested deployment. */
export interface DeployRequest {
  readonly stack: string
  /** Version of zael. */
  readonly version: string
  /** Only the given ones; others keep their value, or get their default on a new stack. */
  readonly options: StackOptionValues
  readonly tags: Readonly<Record<string, string>>
  /** Keys of tags to remove from the stack. */
  readonly removedTags: readonly string[]
  /** ARN of the service role for CloudFormation; absent: the role that the stack has, or the caller's permissions. */
  readonly cloudFormationRole?: string | undefined
  /** Bucket to pass the template through; absent: it is part of the request. */
  readonly templateBucket?: string | undefined
}

/** A parameter that changes; `before` is its default on a new stack. */
export interface ParameterChange {
  readonly option: string
  readonly before: string
  readonly after: string
}

/** What a deployment will do. */
export interface DeployPlan {
  readonly stack: string
  readonly region: string
  /** `recreate`: the remains of a failed first deployment have to be deleted before anything can be planned. */
  readonly action: 'create' | 'update' | 'none' | 'recreate'
  readonly parameters: readonly ParameterChange[]
  /** ARN of the service role that CloudFormation acts with; `null`: it acts with the permissions of its caller. */
  readonly cloudFormationRole: string | null
  readonly changeSet: ChangeSet | undefined
  /** Whether the code of the aggregator will be uploaded; `none`: no aggregator, or not known yet. */
  readonly code: 'new' | 'current' | 'none'
  /** ARN of the stack; `null` when there is none yet. */
  readonly stackId: string | null
  /** For `recreate`: the failed deployment has left its table, which is empty. */
  readonly hasEmptyTable: boolean
  /** `null`: no function yet. */
  readonly runningCode: RunningCode | null
}

// States after a failed first deployment: such a stack can only be deleted.
const NEVER_CREATED = new Set(['ROLLBACK_COMPLETE', 'ROLLBACK_FAILED', 'CREATE_FAILED'])
const USABLE = new Set([
  'CREATE_COMPLETE',
  'UPDATE_COMPLETE',
  'UPDATE_ROLLBACK_COMPLETE',
  'IMPORT_COMPLETE',
  'IMPORT_ROLLBACK_COMPLETE',
])

/** Plans a deployment as a change set; rejects stacks that are not zael's, and changes that would lose data. */
export async function planDeploy(
  aws: Aws,
  table: Table,
  request: DeployRequest,
  wait: WaitOptions,
): Promise<DeployPlan> {
  const {stack} = request
  checkCloudFormationName(stack)
  const given = parametersOf(request.options)
  const existing = await readStack(aws, stack)
  const unknown = {stackId: existing?.id ?? null, hasEmptyTable: false, runningCode: null}
  const cloudFormationRole = request.cloudFormationRole ?? existing?.role ?? null
  const common = {stack, region: await aws.region(), cloudFormationRole, ...unknown}
  const deployed = existing && !isEmptyStack(existing) ? existing : undefined
  if (deployed) {
    checkOwner(deployed)
    if (NEVER_CREATED.has(deployed.status)) {
      const hasEmptyTable = await hasEmptyLeftover(table)
      const parameters = parameterChanges(given, deployed.parameters, {})
      return {...common, action: 'recreate', parameters, changeSet: undefined, code: 'none', hasEmptyTable}
    }
    if (!USABLE.has(deployed.status)) throw unusableStack(deployed)
  }
  checkCombination(stack, {...deployed?.parameters, ...given})
  await checkTable(table, request, deployed)
  const resources = deployed ? await readStackResources(aws, stack) : []
  if (deployed) checkStreamStart(deployed, given, resources)
  // Everything that can fail comes before the change set, which would be left behind.
  const runningCode = await readRunningCode(aws, resources)
  const template = await templateFor(aws, {...deployed?.parameters, ...given})
  checkTemplateLength(template, request.templateBucket)

  const changeSet = await createChangeSet(
    aws,
    {
      stack,
      type: deployed ? 'UPDATE' : 'CREATE',
      template: await passTemplate(aws, {stack, template, bucket: request.templateBucket}),
      role: request.cloudFormationRole,
      parameters: requestParameters(given, deployed?.parameters),
      // CloudFormation removes tags that are not listed again.
      tags: stackTags(stack, request.version, omitTags({...deployed?.tags, ...request.tags}, request.removedTags)),
      changeSetName: `zael-${Math.floor(table.clock())}-${Buffer.from(table.randomBytes(4)).toString('hex')}`,
      isNewName: existing === undefined,
    },
    wait,
  )
  const loss = changeSet?.changes.find(destroysTable)
  if (changeSet && loss) {
    await discardChangeSet(aws, changeSet)
    throw wouldLoseTable(stack, loss)
  }
  const code = planCode(runningCode, changeSet)
  const planned = {...common, runningCode, changeSet, code}
  if (!changeSet) return {...planned, action: 'none', parameters: []}
  // Stacks that are older than the parameter have the runtime that their function has.
  const former = runningCode?.runtime ? {LambdaRuntime: runningCode.runtime} : {}
  const parameters = parameterChanges(given, deployed?.parameters, former)
  return {...planned, stackId: changeSet.stackId, action: deployed ? 'update' : 'create', parameters}
}

/** Whether a failed first deployment left an empty table; throws when the table has items, because it must not be lost. */
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

/** Checks that the existing table is compatible with the request. */
async function checkTable(table: Table, request: DeployRequest, deployed: DeployedStack | undefined): Promise<void> {
  const {stack, options, version} = request
  const current = await readResourceIndex(table)
  if (!deployed && current !== undefined) throw tableWithoutStack(stack)
  if (current !== undefined) {
    const {record, hasLegacyRecord} = await readVersion(table)
    checkCompatibility(record, version, hasLegacyRecord)
  }
  const requested = requestedResourceIndex(options)
  // A table without the index, as in the middle of a rebuild, can get it with any projection.
  if (requested === undefined || current === undefined || current === null || current === requested) return
  throw needsIndexRebuild(stack, resourceIndexOption(current), resourceIndexOption(requested))
}

/** The template as it is sent. */
async function templateFor(aws: Aws, parameters: Readonly<Record<string, string>>): Promise<string> {
  const text = await loadStackTemplate()
  // Emulators such as moto leave an empty statement where the condition is not met, and then refuse the policy.
  const isUnderstood = !aws.isLocal || ownKey(parameters) !== null
  return compactTemplate(isUnderstood ? text : withoutItemsOf('OwnKey', text))
}

/** Parameters that are not given keep their value; those that are new in the template get their default. */
function requestParameters(
  given: Readonly<Record<string, string>>,
  deployed: Readonly<Record<string, string>> = {},
): Parameter[] {
  return STACK_OPTIONS.flatMap(({parameter: ParameterKey}): Parameter[] => {
    const ParameterValue = given[ParameterKey]
    if (ParameterValue !== undefined) return [{ParameterKey, ParameterValue}]
    return ParameterKey in deployed ? [{ParameterKey, UsePreviousValue: true}] : []
  })
}

/** `former`: values of stacks that do not have the parameter yet; they change to the default. */
function parameterChanges(
  given: Readonly<Record<string, string>>,
  deployed: Readonly<Record<string, string>> = {},
  former: Readonly<Record<string, string>>,
): ParameterChange[] {
  return STACK_OPTIONS.flatMap(option => {
    const {parameter} = option
    const byDefault = parameterText(option, option.default)
    const before = deployed[parameter] ?? former[parameter] ?? byDefault
    const after = given[parameter] ?? deployed[parameter] ?? byDefault
    return after === before ? [] : [{option: option.name, before, after}]
  })
}
