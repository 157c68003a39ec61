import {GetTemplateCommand} from '@aws-sdk/client-cloudformation'
import {parseDocument} from 'yaml'
import {ZaelError} from '../../core/errors.js'
import {TableMissing} from '../../dynamo/errors.js'
import {type Table, untilAborted} from '../../repository/table/table.js'
import {type Aws, awsUntilAborted} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'
import {findArchive} from '../stack/archive.js'
import {type DeployedStack, isEmptyStack, readStack, readStackResources, type StackResource} from '../stack/reader.js'
import {checkOwner, unusableStack} from '../stack/refusals.js'
import {LOGICAL_ID} from '../stack/template.js'
import {checkLeftovers, type DeletionRequest} from './leftovers.js'

interface TableSummary {
  readonly name: string
  /** By DynamoDB's count, which is up to six hours old. */
  readonly items: number
  readonly isProtected: boolean
}

export interface DeletionPlan extends DeletionRequest {
  readonly name: string
  /** `null`: a local engine. */
  readonly region: string | null
  /** `undefined` where only the table or the archive is left, or on a local engine. */
  readonly stack: DeployedStack | undefined
  readonly goes: readonly StackResource[]
  /** Resources that the template tells CloudFormation to retain. */
  readonly stays: readonly StackResource[]
  readonly table: TableSummary | undefined
  /** Name of the bucket with archived audit events, of this stack or of the last deleted one. */
  readonly archive: string | undefined
}

/** Checks everything first: obstacles are reported before anything is deleted. */
export async function planDeletion(
  services: Aws | undefined,
  givenTable: Table,
  request: DeletionRequest,
  signal?: AbortSignal,
): Promise<DeletionPlan> {
  const aws = services && awsUntilAborted(services, signal)
  const table = signal ? untilAborted(givenTable, signal) : givenTable
  const {name} = table
  const stack = aws && (await readStack(aws, name))
  // The empty stack of a plan that was never executed can always be deleted; it has neither template nor resources.
  const deployed = stack && !isEmptyStack(stack) ? stack : undefined
  if (deployed) {
    checkOwner(deployed)
    if (deployed.status.endsWith('_IN_PROGRESS')) throw unusableStack(deployed)
  }
  if (stack?.isTerminationProtected) throw terminationProtected(name)
  const found = await readTable(table)
  const resources = aws && deployed ? await readStackResources(aws, name) : []
  const kept = aws && deployed ? await retainedIds(aws, deployed) : new Set()
  const stays = resources.filter(({logicalId}) => kept.has(logicalId))
  const archive = aws && (await findArchive(aws, name, deployed && stays, {isRequired: request.emptyArchive}))
  if (!stack || (!deployed && request.deleteTable && found)) {
    await checkLeftovers(table, {hasTable: found !== undefined, archive}, request)
  }
  if (request.deleteTable && found?.isProtected) throw deletionProtected(name, deployed !== undefined)
  if (deployed && found && !kept.has(LOGICAL_ID.table) && !request.deleteTable) throw tableNotKept(name)
  return {
    ...request,
    name,
    region: aws ? await aws.region() : null,
    stack,
    goes: resources.filter(({logicalId}) => !kept.has(logicalId)),
    stays,
    table: found,
    archive,
  }
}

/** `undefined` when there is none. */
export async function readTable({transport, name: TableName}: Table): Promise<TableSummary | undefined> {
  try {
    const {Table: found} = await transport.send('DescribeTable', {TableName})
    return {name: TableName, items: found?.ItemCount ?? 0, isProtected: found?.DeletionProtectionEnabled ?? false}
  } catch (error) {
    if (error instanceof TableMissing) return undefined
    throw error
  }
}

/** According to the deployed template, which may be older than the one in this package. */
async function retainedIds(aws: Aws, {name, id}: DeployedStack): Promise<Set<string>> {
  const text = await callAws(`read the template of stack "${name}"`, async () => {
    const client = await aws.cloudFormation()
    return (await client.send(new GetTemplateCommand({StackName: id, TemplateStage: 'Original'}))).TemplateBody ?? ''
  })
  // Functions such as !Ref are not needed here.
  const {Resources = {}} = parseDocument(text, {logLevel: 'silent'}).toJS() ?? {}
  const entries = Object.entries(Resources as Record<string, {DeletionPolicy?: string}>)
  return new Set(entries.filter(([, {DeletionPolicy}]) => DeletionPolicy?.startsWith('Retain')).map(([key]) => key))
}

/** Only the deployed template can tell CloudFormation to keep the table. */
function tableNotKept(name: string): ZaelError {
  const message = `The template of stack "${name}" does not retain the table: CloudFormation would delete it with all its data.`
  return new ZaelError('conflict', 'delete.table-not-kept', message, {
    hint: `Nothing was deleted. To keep the table, update the stack first: zael deploy --stack ${name}; to delete it, add --delete-table.`,
    details: {stack: name},
  })
}

function deletionProtected(name: string, hasStack: boolean): ZaelError {
  const off = hasStack
    ? `zael deploy --stack ${name} --no-deletion-protection`
    : `aws dynamodb update-table --table-name ${name} --no-deletion-protection-enabled`
  return new ZaelError('conflict', 'table.protected', `The table "${name}" is protected against deletion.`, {
    hint: `Nothing was deleted. If its data may be deleted, turn the protection off first: ${off}`,
    details: {stack: name},
  })
}

function terminationProtected(name: string): ZaelError {
  return new ZaelError('conflict', 'stack.protected', `Stack "${name}" is protected against termination.`, {
    hint: `Nothing was deleted. Turn the protection off first: zael deploy --stack ${name} --no-termination-protection`,
    details: {stack: name},
  })
}
