import {DescribeStacksCommand, paginateListStackResources, type Stack} from '@aws-sdk/client-cloudformation'
import {valueIf, ZaelError} from '../../core/errors.js'
import type {OperationOutput} from '../../dynamo/transport.js'
import {isoSeconds} from '../../schema/attribute-value.js'
import type {Aws} from '../aws/clients.js'
import {callAws, collected} from '../aws/errors.js'

export type StackOwner = 'zael' | 'zae-limiter' | 'other'

export type DeployedStack = Readonly<ReturnType<typeof toDeployedStack>>

export interface StackResource {
  readonly logicalId: string
  /** Name or ARN on AWS; `null`: not created yet. */
  readonly physicalId: string | null
  readonly type: string
  readonly status: string
  readonly statusReason: string | null
}

/** `name`: name or ARN. */
export async function readStack(aws: Aws, name: string): Promise<DeployedStack | undefined> {
  return callAws(`read stack "${name}"`, async () => {
    const client = await aws.cloudFormation()
    const reading = client.send(new DescribeStacksCommand({StackName: name}))
    const {Stacks: [stack] = []} = (await reading.catch(valueIf(isStackMissing, undefined))) ?? {}
    return stack && toDeployedStack(stack)
  })
}

export async function readStackResources(aws: Aws, name: string): Promise<StackResource[]> {
  return callAws(`list the resources of stack "${name}"`, async () => {
    const pages = paginateListStackResources({client: await aws.cloudFormation()}, {StackName: name})
    const resources = (await collected(pages, page => page.StackResourceSummaries)).map(each => ({
      logicalId: each.LogicalResourceId ?? '',
      physicalId: each.PhysicalResourceId || null,
      type: each.ResourceType ?? '',
      status: each.ResourceStatus ?? '',
      statusReason: each.ResourceStatusReason ?? null,
    }))
    // Emulators list resources of unknown types without a name.
    return resources.filter(({status, logicalId}) => status !== 'DELETE_COMPLETE' && logicalId !== '')
  })
}

export function toDeployedStack(stack: Stack) {
  const tags = record(stack.Tags?.map(({Key, Value}) => [Key, Value]))
  return {
    name: stack.StackName ?? '',
    /** The ARN; it distinguishes successive stacks of the same name. */
    id: stack.StackId ?? '',
    status: stack.StackStatus ?? '',
    statusReason: stack.StackStatusReason ?? null,
    createdAt: stack.CreationTime ?? null,
    updatedAt: stack.LastUpdatedTime ?? null,
    isTerminationProtected: stack.EnableTerminationProtection ?? false,
    /** ARN of the service role; `null`: CloudFormation uses its caller's permissions. */
    role: stack.RoleARN ?? null,
    owner: ownerOf(tags),
    /** Values of NoEcho parameters are asterisks. */
    parameters: record(stack.Parameters?.map(each => [each.ParameterKey, each.ParameterValue])),
    outputs: record(stack.Outputs?.map(each => [each.OutputKey, each.OutputValue])),
    tags,
  }
}

/** The Python tool's load-test stacks have its tags too, but are not limiters. */
export function ownerOf(tags: Readonly<Record<string, string>>): StackOwner {
  const {ManagedBy: manager} = tags
  if (manager === 'zael' && tags['zael:type'] === 'limiter') return 'zael'
  return manager === 'zae-limiter' && tags['zae-limiter:type'] === 'limiter' ? 'zae-limiter' : 'other'
}

/** Created for a change set that was never executed: no resources, and owned by zael or nobody. */
export function isEmptyStack({status, tags, owner}: DeployedStack): boolean {
  return status === 'REVIEW_IN_PROGRESS' && (owner === 'zael' || Object.keys(tags).length === 0)
}

/** CloudFormation has no dedicated error type for this. */
function isStackMissing(error: unknown): boolean {
  const {name = '', message = ''} = typeof error === 'object' && error !== null ? (error as Partial<Error>) : {}
  return name === 'ValidationError' && /does not exist/.test(message)
}

export function deploymentOf({status, tags, createdAt, updatedAt}: DeployedStack) {
  return {
    status,
    version: tagOf(tags, 'version'),
    schemaVersion: tagOf(tags, 'schema-version'),
    createdAt: createdAt && isoSeconds(createdAt.getTime()),
    updatedAt: updatedAt && isoSeconds(updatedAt.getTime()),
  }
}

export function tagOf(tags: Readonly<Record<string, string>>, name: string): string | null {
  return tags[`zael:${name}`] ?? tags[`zae-limiter:${name}`] ?? null
}

function record(
  entries: ReadonlyArray<readonly [string | undefined, string | undefined]> = [],
): Record<string, string> {
  return Object.fromEntries(entries.map(([key = '', value = '']) => [key, value]))
}

export function checkOwner(stack: DeployedStack): void {
  if (stack.owner === 'zae-limiter') throw pythonStack(stack)
  if (stack.owner === 'other') throw foreignStack(stack)
  const {TableName: table = ''} = stack.parameters
  if (table !== '' && table !== stack.name) throw otherTable(stack.name, table)
}

export function unusableStack({name, status}: DeployedStack): ZaelError {
  const hint = status.endsWith('_IN_PROGRESS')
    ? `Wait until it is done, then run the same command again. Check it: zael status --stack ${name}`
    : status === 'UPDATE_ROLLBACK_FAILED'
      ? `Finish its rollback first: aws cloudformation continue-update-rollback --stack-name ${name}`
      : `Delete the failed stack first, which keeps the table: zael delete --stack ${name}`
  return new ZaelError('conflict', 'stack.state', `Stack "${name}" is ${status} and cannot be changed now.`, {
    hint,
    details: {stack: name, status},
  })
}

function foreignStack({name, status}: DeployedStack): ZaelError {
  const message = `Stack "${name}" (${status}) already exists and is not a rate limiter.`
  return new ZaelError('conflict', 'stack.foreign', message, {
    hint: 'Nothing was changed. Choose another name with --stack, or another --region or --profile.',
    details: {stack: name},
  })
}

/** zael finds a stack by the name of its table. */
function otherTable(stack: string, table: string): ZaelError {
  const message = `The table of stack "${stack}" has another name ("${table}"), because another tool deployed it.`
  return new ZaelError('conflict', 'stack.other-table', message, {
    hint: `Nothing was changed. Use that tool to change the stack. For limits, entities and usage, use the name of the table: --stack ${table}`,
    details: {stack, table},
  })
}

export function notOurTable(name: string): ZaelError {
  return new ZaelError('conflict', 'table.foreign', `The table "${name}" is not a rate limiter table.`, {
    hint: 'Nothing was changed. Check --stack, --region and --profile.',
    details: {stack: name},
  })
}

/** The Python tool has another template: an update would remove the stack's resources. */
function pythonStack({name}: DeployedStack): ZaelError {
  return new ZaelError('conflict', 'stack.python', `Stack "${name}" was deployed by the Python tool (zae-limiter).`, {
    hint:
      'Nothing was changed. All commands for limits, entities and usage work with it. ' +
      'To hand the stack over to zael, follow "Adopting a table of the Python tool" in docs/operations.md.',
    details: {stack: name},
  })
}

/** The SDK returns a Date; the plain HTTP transport returns a number of seconds. */
export function instantMs(instant: Date | number): number {
  return typeof instant === 'number' ? instant * 1000 : instant.getTime()
}

/** Units per second, for on-demand tables. DynamoDB reports -1 for no maximum. */
export function throughputOf(description: OperationOutput<'DescribeTable'>['Table']) {
  const {MaxReadRequestUnits: maxReads = -1, MaxWriteRequestUnits: maxWrites = -1} =
    description?.OnDemandThroughput ?? {}
  const {ReadUnitsPerSecond: warmReads = null, WriteUnitsPerSecond: warmWrites = null} =
    description?.WarmThroughput ?? {}
  return {
    /** Upper bounds; `null`: none. */
    maxReads: maxReads > 0 ? maxReads : null,
    maxWrites: maxWrites > 0 ? maxWrites : null,
    /** Units that the table can serve at once; `null`: not reported, as by local engines. */
    warmReads,
    warmWrites,
  }
}

/** Responses of CloudFormation or an emulator, and errors from before a request is sent. */
const REFUSALS = new Set(['aws.denied', 'aws.credentials', 'aws.throttled', 'aws.clock', 'aws.region'])

/** An emulator has CloudFormation; a plain DynamoDB engine responds with another error. Throws without a response. */
export async function hasCloudFormation(aws: Aws): Promise<boolean> {
  try {
    await callAws('contact the endpoint', async () => {
      const client = await aws.cloudFormation()
      await client.send(new DescribeStacksCommand({StackName: 'no-such-stack'}))
    })
    return true
  } catch (error) {
    if (!(error instanceof ZaelError)) throw error
    if (isStackMissing(error.cause)) return true
    if (REFUSALS.has(error.code)) return true
    const {$metadata: {httpStatusCode} = {}} = (error.cause ?? {}) as {$metadata?: {httpStatusCode?: number}}
    if (httpStatusCode === undefined) throw error
    return false
  }
}

/** A deployment neither recreates a table that CloudFormation believes to exist nor restores data. */
export const LOST_TABLE_FIX = 'Restore it as described in docs/operations.md#restoring-a-lost-table'

export function deployCommand(stack: string, owner: StackOwner | undefined): string {
  return owner === 'zae-limiter' ? 'Adopt the stack as described in docs/operations.md' : `zael deploy --stack ${stack}`
}

export function rebuildCommand(stack: string, owner: StackOwner | undefined): string {
  const deploy = deployCommand(stack, owner)
  return owner === 'zae-limiter' ? deploy : `${deploy} --repair`
}

/** A migration adds missing parts of the table's layout. */
export function repairCommand(stack: string): string {
  return `zael migrate plan --stack ${stack}`
}

/** A stream's view type cannot be changed: disable the stream, then a migration adds it again. */
export function restreamCommand(stack: string): string {
  const off = `aws dynamodb update-table --table-name ${stack} --stream-specification StreamEnabled=false`
  return `${off}, then ${repairCommand(stack)}`
}

export function recoveryCommand(stack: string): string {
  const on = '--point-in-time-recovery-specification PointInTimeRecoveryEnabled=true'
  return `aws dynamodb update-continuous-backups --table-name ${stack} ${on}`
}

export function removeMaximum(stack: string, kind: 'Read' | 'Write'): string {
  return `aws dynamodb update-table --table-name ${stack} --on-demand-throughput Max${kind}RequestUnits=-1`
}

export function logsCommand(functionName: string): string {
  return `aws logs tail /aws/lambda/${functionName} --since 1d`
}
