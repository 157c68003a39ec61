import {GetEventSourceMappingCommand} from '@aws-sdk/client-lambda'
import {valueFor, ZaelError} from '../../core/errors.js'
import {formatCount} from '../../core/text/text.js'
import {TableMissing} from '../../dynamo/errors.js'
import {describeTable, isEmptyTable, readResourceIndex, type Table, untilAborted} from '../../repository/table/table.js'
import {readVersion} from '../../repository/table/version.js'
import {checkCompatibility} from '../../repository/table/version-compatibility.js'
import {type Aws, awsUntilAborted} from '../aws/clients.js'
import {callUnlessMissing} from '../aws/errors.js'
import type {WaitOptions} from '../aws/send-change.js'
import {LOGICAL_ID} from '../stack/artifacts.js'
import {checkCombination} from '../stack/option-rules.js'
import {
  parametersOf,
  parameterText,
  requestedResourceIndex,
  resourceIndexOption,
  STACK_OPTIONS,
  type StackOptionValues,
} from '../stack/options.js'
import {
  checkOwner,
  type DeployedStack,
  isEmptyStack,
  readStack,
  readStackResources,
  removeMaximum,
  type StackResource,
  throughputOf,
  unusableStack,
} from '../stack/reader.js'
import {omitTags, stackTags} from '../stack/tags.js'
import {type Adoption, failedStackHasItems, notImported, planAdoption} from './adoption.js'
import {createChangeSet, discardChangeSet} from './change-set.js'
import {checkCloudFormationName, needsIndexRebuild, tableIsGone, wouldLoseTable} from './errors.js'
import {
  type ChangeSet,
  destroysTable,
  type ParameterChange,
  parameterChanges,
  planCode,
  type RunningCode,
  readRunningCode,
  requestParameters,
} from './planned-change.js'
import {checkTemplateLength, passTemplate, sentTemplate} from './template-upload.js'

export interface DeployRequest {
  readonly stack: string
  readonly version: string
  /** Options not given keep their value, or get their default on a new stack. */
  readonly options: StackOptionValues
  readonly tags: Readonly<Record<string, string>>
  readonly removedTags: readonly string[]
  /** ARN; absent: the role that the stack has, or the caller's permissions. */
  readonly cloudFormationRole?: string | undefined
  readonly repair?: boolean
  /** Absent: the template is part of the request. */
  readonly templateBucket?: string | undefined
  /** Absent: unchanged. */
  readonly terminationProtection?: boolean | undefined
}

export interface DeployPlan {
  readonly stack: string
  readonly region: string
  /** `recreate`: leftovers of a failed first deployment must be deleted before planning. */
  readonly action: 'create' | 'update' | 'none' | 'recreate'
  readonly parameters: readonly ParameterChange[]
  readonly cloudFormationRole: string | null
  /** The new value; `null`: unchanged. */
  readonly terminationProtection: boolean | null
  readonly changeSet: ChangeSet | undefined
  /** `new`: the aggregator's code will be uploaded; `none`: no aggregator, or not known yet. */
  readonly code: 'new' | 'current' | 'none'
  readonly stackId: string | null
  readonly adopts: Pick<Adoption, 'table' | 'items' | 'formerArchive'> | null
  /** The plan compares with the actual resources, not with the last deployment. */
  readonly repairs: boolean
  /** For `recreate`: the failed deployment left an empty table. */
  readonly hasEmptyTable: boolean
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

/** Rejects stacks that are not zael's, and changes that would lose data. An aborted plan leaves no change set. */
export async function planDeploy(
  services: Aws,
  givenTable: Table,
  request: DeployRequest,
  wait: WaitOptions,
): Promise<DeployPlan> {
  const {stack} = request
  const aws = awsUntilAborted(services, wait.signal)
  const table = wait.signal ? untilAborted(givenTable, wait.signal) : givenTable
  checkCloudFormationName(stack)
  const asked = parametersOf(request.options)
  const existing = await readStack(aws, stack)
  const unknown = {stackId: existing?.id ?? null, hasEmptyTable: false, runningCode: null, adopts: null, repairs: false}
  const cloudFormationRole = request.cloudFormationRole ?? existing?.role ?? null
  const isProtected = existing?.isTerminationProtected ?? false
  const {terminationProtection: protect = null} = request
  const terminationProtection = protect === isProtected ? null : protect
  const common = {stack, region: await aws.region(), cloudFormationRole, terminationProtection, ...unknown}
  const deployed = existing && !isEmptyStack(existing) ? existing : undefined
  if (deployed) {
    checkOwner(deployed)
    if (NEVER_CREATED.has(deployed.status)) {
      const hasEmptyTable = await hasEmptyLeftover(table)
      const parameters = parameterChanges(asked, deployed.parameters, {})
      return {...common, action: 'recreate', parameters, changeSet: undefined, code: 'none', hasEmptyTable}
    }
    if (!USABLE.has(deployed.status)) throw unusableStack(deployed)
  }
  checkCombination(stack, {...deployed?.parameters, ...asked})
  // Runs before other reads: the table may not be zael's.
  const adoption = deployed ? undefined : await planAdoption(aws, table, asked)
  const addsIndex = await checkTable(table, request, deployed)
  const given = {...asked, ...adoption?.parameters}
  await checkWarmThroughput(table, given)
  const resources = deployed ? await readStackResources(aws, stack) : []
  if (deployed) checkStreamStart(deployed, given, resources)
  // Everything that can fail comes first: a failure would leave the change set behind.
  const runningCode = await readRunningCode(aws, resources)
  const repairs =
    deployed !== undefined && (request.repair === true || (await findGoneParts(aws, resources, runningCode)))
  const wanted = repairs ? {...given, ...(await keptProtection(table, asked))} : given
  const template = await sentTemplate(aws, {...deployed?.parameters, ...wanted}, adoption)
  checkTemplateLength(template, request.templateBucket)

  const changeSet = await createChangeSet(
    services,
    {
      stack,
      type: deployed ? 'UPDATE' : 'CREATE',
      template: await passTemplate(aws, {stack, template, bucket: request.templateBucket}),
      role: request.cloudFormationRole,
      parameters: requestParameters(wanted, deployed?.parameters),
      // CloudFormation removes tags that are not listed again.
      tags: stackTags(stack, request.version, omitTags({...deployed?.tags, ...request.tags}, request.removedTags)),
      changeSetName: `zael-${Math.floor(table.clock())}-${Buffer.from(table.randomBytes(4)).toString('hex')}`,
      isNewName: existing === undefined || (!deployed && existing.owner === 'zael'),
      imports: adoption !== undefined,
      revertsDrift: repairs,
    },
    wait,
  )
  const loss = changeSet?.changes.find(change => destroysTable(change, addsIndex))
  if (changeSet && loss) {
    await discardChangeSet(services, changeSet)
    throw wouldLoseTable(stack, loss)
  }
  if (
    changeSet &&
    adoption &&
    !changeSet.changes.some(({logicalId, action}) => logicalId === LOGICAL_ID.table && action === 'import')
  ) {
    await discardChangeSet(services, changeSet)
    throw notImported(stack)
  }
  const code = planCode(runningCode, changeSet)
  const planned = {...common, runningCode, changeSet, code, repairs, adopts: adoption ?? null}
  // Without a change set, the service role is not set either.
  if (!changeSet) return {...planned, action: 'none', parameters: [], cloudFormationRole: existing?.role ?? null}
  // Stacks older than the parameter have the runtime of their function.
  const former = runningCode?.runtime ? {LambdaRuntime: runningCode.runtime} : {}
  const parameters = parameterChanges(wanted, deployed?.parameters, former)
  return {...planned, stackId: changeSet.stackId, action: deployed ? 'update' : 'create', parameters}
}

export async function hasEmptyLeftover(table: Table): Promise<boolean> {
  const isEmpty = await isEmptyTable(table).catch(valueFor([TableMissing], undefined))
  if (isEmpty === false) throw failedStackHasItems(table.name)
  return isEmpty ?? false
}

/** True when the request adds the resource index to a table without it. */
async function checkTable(table: Table, request: DeployRequest, deployed?: DeployedStack): Promise<boolean> {
  const {stack, options, version} = request
  const current = await readResourceIndex(table)
  if (deployed && current === undefined) throw tableIsGone(stack)
  if (current !== undefined) {
    const {record, hasLegacyRecord} = await readVersion(table)
    checkCompatibility(record, version, hasLegacyRecord)
  }
  const requested = requestedResourceIndex(options)
  // A table without the index, as in the middle of a rebuild, can get it with any projection.
  if (!deployed || requested === undefined || !current || current === requested)
    return current === null && requested !== undefined
  throw needsIndexRebuild(stack, resourceIndexOption(current), resourceIndexOption(requested))
}

/** CloudFormation believes that these parts exist, and a plan that compares templates would not recreate them. */
async function findGoneParts(
  aws: Aws,
  resources: readonly StackResource[],
  running: RunningCode | null,
): Promise<boolean> {
  const physicalId = (id: string) => resources.find(({logicalId}) => logicalId === id)?.physicalId
  if (physicalId(LOGICAL_ID.function) && running === null) return true
  const UUID = physicalId(LOGICAL_ID.mapping)
  if (!UUID) return false
  const mapping = await callUnlessMissing(`read the event source mapping ${UUID}`, async () => {
    return (await aws.lambda()).send(new GetEventSourceMappingCommand({UUID}))
  })
  return mapping === undefined
}

type Parameters = Readonly<Record<string, string>>

/** A repair keeps deletion protection that was turned on by hand, unless another value is given. */
async function keptProtection({transport, name: TableName}: Table, asked: Parameters): Promise<Parameters> {
  if (asked.EnableDeletionProtection !== undefined) return {}
  const {Table: table} = await transport.send('DescribeTable', {TableName})
  return table?.DeletionProtectionEnabled ? {EnableDeletionProtection: 'true'} : {}
}

/** CloudFormation creates the new mapping first, but Lambda rejects a second one for the same stream and function. */
export function checkStreamStart(
  {name, parameters}: Pick<DeployedStack, 'name' | 'parameters'>,
  given: Parameters,
  resources: readonly StackResource[],
): void {
  const option = STACK_OPTIONS.find(each => each.name === 'streamStart')
  const requested = option && given[option.parameter]
  if (!option || requested === undefined || given.EnableAggregator === 'false') return
  const deployed = parameters[option.parameter] ?? parameterText(option, option.default)
  const isMapped = resources.some(({logicalId, physicalId}) => logicalId === LOGICAL_ID.mapping && physicalId !== null)
  if (!isMapped || requested === deployed) return
  const choice = (value: string) => option.choices?.find(each => parameterText(option, each) === value) ?? value
  throw startsElsewhere(name, choice(deployed), choice(requested))
}

function startsElsewhere(stack: string, deployed: string, asked: string): ZaelError {
  const steps = [
    `zael deploy --stack ${stack} --no-aggregator`,
    `zael deploy --stack ${stack} --aggregator --stream-start ${asked}`,
  ]
  const message =
    `The aggregator of "${stack}" started at ${deployed}. Starting it at ${asked} takes two deployments: ` +
    'CloudFormation creates the new mapping before it deletes the old one, and Lambda allows only one.'
  return new ZaelError('conflict', 'deploy.stream-start', message, {
    hint:
      'Nothing was changed. Omit --stream-start, which applies only to a new aggregator. To create a new one, with a new ' +
      'dead-letter queue, logs and archive:\n' +
      steps.map((step, at) => `  ${at + 1}. ${step}`).join('\n'),
    details: {stack, deployed, asked, steps},
  })
}

/** DynamoDB rejects a lower value, but only in the middle of the update. */
export async function checkWarmThroughput(table: Table, given: Readonly<Record<string, string>>): Promise<void> {
  if (!given.WarmReadUnits && !given.WarmWriteUnits) return
  const {warmReads, warmWrites} = throughputOf(await describeTable(table))
  checkNotLowered('--warm-throughput-reads', given.WarmReadUnits, warmReads)
  checkNotLowered('--warm-throughput-writes', given.WarmWriteUnits, warmWrites)
}

/** Warns about remaining maxima: an update that removes the property may keep them. */
export async function leftMaxima(table: Table, changes: readonly ParameterChange[]): Promise<string[]> {
  const isRemoved = (name: string) => changes.some(({option, after}) => option === name && after === '')
  const [reads, writes] = [isRemoved('onDemandMaxReads'), isRemoved('onDemandMaxWrites')]
  if (!reads && !writes) return []
  const {maxReads, maxWrites} = throughputOf(await describeTable(table))
  const left = (units: number, kind: 'Read' | 'Write') =>
    `CloudFormation kept the maximum of ${formatCount(units)} ${kind.toLowerCase()} units a second. ` +
    `To remove it: ${removeMaximum(table.name, kind)}`
  return [
    ...(reads && maxReads !== null ? [left(maxReads, 'Read')] : []),
    ...(writes && maxWrites !== null ? [left(maxWrites, 'Write')] : []),
  ]
}

function checkNotLowered(flag: string, given: string | undefined, current: number | null): void {
  if (!given || current === null || Number(given) >= current) return
  const message = `${flag} is ${formatCount(Number(given))}, but the table can already serve ${formatCount(current)} units a second, which cannot be lowered.`
  throw new ZaelError('conflict', 'deploy.warm-throughput', message, {
    hint: `Nothing was changed. Omit ${flag}, or give ${current} or more.`,
    details: {given: Number(given), current},
  })
}
