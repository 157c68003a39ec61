import {GetTemplateCommand} from '@aws-sdk/client-cloudformation'
import {parseDocument} from 'yaml'
import {ZaelError} from '../../core/errors.js'
import {TableMissing} from '../../dynamo/errors.js'
import type {Table} from '../../repository/table/table.js'
import type {Aws} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'
import {unusableStack} from '../deploy/errors.js'
import {checkOwner} from '../deploy/plan.js'
import {type DeployedStack, isEmptyStack, readStack, readStackResources, type StackResource} from '../stacks/reader.js'
import {LOGICAL_ID} from '../stacks/template.js'
import {hasBucket} from './archive.js'
import {findFormerArchive} from './former-archive.js'
import {checkLeftovers, type DeletionRequest} from './leftovers.js'

/** The table of a stack before it is deleted. */
export interface TableSummary {
  readonly name: string
  /** As DynamoDB counts them, some hours late. */
  readonly items: number
  readonly isProtected: boolean
}

/** What goes and what stays. */
export interface DeletionPlan extends DeletionRequest {
  readonly name: string
  /** `null`: a local engine. */
  readonly region: string | null
  /** `undefined` where only the table or the archive is left, or on a local engine. */
  readonly stack: DeployedStack | undefined
  /** Resources that CloudFormation deletes. */
  readonly goes: readonly StackResource[]
  /** Resources that the template tells CloudFormation to keep. */
  readonly stays: readonly StackResource[]
  readonly table: TableSummary | undefined
  /** Name of the bucket with archived audit events, of the stack or of the one that is gone. */
  readonly archive: string | undefined
}

/** Looks at everything first: whatever stands in the way is told before the first thing is gone. */
export async function planDeletion(
  aws: Aws | undefined,
  table: Table,
  request: DeletionRequest,
): Promise<DeletionPlan> {
  const {name} = table
  const stack = aws && (await readStack(aws, name))
  // What a plan that was never carried out leaves may go at any time; it has neither template nor resources.
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
  const archive = aws && (await findArchive(aws, name, request, deployed && stays))
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

/** Looked for among what stays of the stack, or of the one that is gone; a bucket that is not there any more is none. */
async function findArchive(
  aws: Aws,
  name: string,
  {emptyArchive}: DeletionRequest,
  stays: readonly StackResource[] | undefined,
): Promise<string | undefined> {
  let bucket: string | undefined
  try {
    bucket = stays
      ? (stays.find(({logicalId}) => logicalId === LOGICAL_ID.archive)?.physicalId ?? undefined)
      : await findFormerArchive(aws, name)
    return bucket !== undefined && (await hasBucket(aws, bucket)) ? bucket : undefined
  } catch (error) {
    // What is not to go need not be seen.
    if (!emptyArchive && error instanceof ZaelError) return bucket
    throw error
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

/** By the template that is deployed, which may be older than ours. */
async function retainedIds(aws: Aws, {name, id}: DeployedStack): Promise<Set<string>> {
  const text = await callAws(`read the template of stack "${name}"`, async () => {
    const client = await aws.cloudFormation()
    return (await client.send(new GetTemplateCommand({StackName: id, TemplateStage: 'Original'}))).TemplateBody ?? ''
  })
  // Functions such as !Ref are of no interest here.
  const {Resources = {}} = parseDocument(text, {logLevel: 'silent'}).toJS() ?? {}
  const entries = Object.entries(Resources as Record<string, {DeletionPolicy?: string}>)
  return new Set(entries.filter(([, {DeletionPolicy}]) => DeletionPolicy?.startsWith('Retain')).map(([key]) => key))
}

/** CloudFormation can only be told by the template what to keep. */
function tableNotKept(name: string): ZaelError {
  const said = `The template of stack "${name}" does not keep the table: CloudFormation would delete it with all its data.`
  return new ZaelError('conflict', 'delete.table-not-kept', said, {
    hint: `Nothing was deleted. To keep the table, bring the stack up to date first: zael deploy --stack ${name}; to lose it, add --delete-table.`,
    details: {stack: name},
  })
}

function deletionProtected(name: string, hasStack: boolean): ZaelError {
  const off = hasStack
    ? `zael deploy --stack ${name} --no-deletion-protection`
    : `aws dynamodb update-table --table-name ${name} --no-deletion-protection-enabled`
  return new ZaelError('conflict', 'table.protected', `The table "${name}" is protected against deletion.`, {
    hint: `Nothing was deleted. If its data can really go, take the protection off first: ${off}`,
    details: {stack: name},
  })
}

function terminationProtected(name: string): ZaelError {
  return new ZaelError('conflict', 'stack.protected', `Stack "${name}" is protected against termination.`, {
    hint: `Nothing was deleted. Take the protection off first: aws cloudformation update-termination-protection --no-enable-termination-protection --stack-name ${name}`,
    details: {stack: name},
  })
}
