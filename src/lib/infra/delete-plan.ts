import {GetTemplateCommand} from '@aws-sdk/client-cloudformation'
import {parseDocument} from 'yaml'
import {TableMissing, ValidationFailed} from '../dynamo/errors.js'
import {ZaelError} from '../errors.js'
import type {Table} from '../repository/table.js'
import {readVersion} from '../repository/version.js'
import type {Aws} from './aws-clients.js'
import {attempt} from './aws-errors.js'
import {unusableStack} from './deploy-errors.js'
import {refuseOthers} from './deploy-plan.js'
import {type DeployedStack, isEmptyShell, readStack, readStackResources, type StackResource} from './stack-reader.js'
import {LOGICAL_ID} from './stack-template.js'

/** What may be destroyed beside the stack; each has to be asked for. */
export interface DeletionRequest {
  readonly deleteTable: boolean
  readonly emptyArchive: boolean
}

/** The table of a stack before it is deleted. */
export interface DoomedTable {
  readonly name: string
  /** As DynamoDB counts them, some hours late. */
  readonly items: number
  readonly isProtected: boolean
}

/** What goes and what stays. */
export interface DeletionPlan extends DeletionRequest {
  readonly name: string
  /** `undefined` where only the table is left, or on a local engine. */
  readonly stack: DeployedStack | undefined
  /** Resources that CloudFormation deletes. */
  readonly goes: readonly StackResource[]
  /** Resources that the template tells CloudFormation to keep. */
  readonly stays: readonly StackResource[]
  readonly table: DoomedTable | undefined
  /** Name of the bucket with archived audit events. */
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
  const deployed = stack && !isEmptyShell(stack) ? stack : undefined
  if (deployed) {
    refuseOthers(deployed)
    if (deployed.status.endsWith('_IN_PROGRESS')) throw unusableStack(deployed)
  }
  if (stack?.isTerminationProtected) throw terminationProtected(name)
  const found = await readTable(table)
  if (!stack || (!deployed && request.deleteTable && found)) await checkLoneTable(table, found, request)
  if (request.deleteTable && found?.isProtected) throw deletionProtected(name, deployed !== undefined)
  const resources = aws && deployed ? await readStackResources(aws, name) : []
  const kept = aws && deployed ? await retainedIds(aws, deployed) : new Set()
  const stays = resources.filter(({logicalId}) => kept.has(logicalId))
  if (deployed && found && !kept.has(LOGICAL_ID.table) && !request.deleteTable) throw tableNotKept(name)
  return {
    ...request,
    name,
    stack,
    goes: resources.filter(({logicalId}) => !kept.has(logicalId)),
    stays,
    table: found,
    archive: stays.find(({logicalId}) => logicalId === LOGICAL_ID.archive)?.physicalId ?? undefined,
  }
}

/** `undefined` when there is none. */
export async function readTable({transport, name: TableName}: Table): Promise<DoomedTable | undefined> {
  try {
    const {Table: found} = await transport.send('DescribeTable', {TableName})
    return {name: TableName, items: found?.ItemCount ?? 0, isProtected: found?.DeletionProtectionEnabled ?? false}
  } catch (error) {
    if (error instanceof TableMissing) return undefined
    throw error
  }
}

/** A table without a stack goes only when asked for, and only if it is one of a rate limiter. */
async function checkLoneTable(table: Table, found: DoomedTable | undefined, {deleteTable}: DeletionRequest) {
  const {name} = table
  if (!found) {
    throw new ZaelError('notFound', 'stack.missing', `There is no stack "${name}" here, and no table of that name.`, {
      hint: 'Check --stack, --region and --profile; `zael list` shows the stacks of a region.',
      details: {stack: name},
    })
  }
  if (!(await isLimiterTable(table))) {
    throw new ZaelError('conflict', 'table.foreign', `The table "${name}" is not one of a rate limiter.`, {
      hint: 'Nothing was touched. Check --stack, --region and --profile.',
      details: {stack: name},
    })
  }
  if (deleteTable) return
  throw new ZaelError('notFound', 'stack.missing', `There is no stack "${name}" here, only a table of that name.`, {
    hint: `To delete the table with all its data: zael delete --stack ${name} --delete-table`,
    details: {stack: name},
  })
}

async function isLimiterTable(table: Table): Promise<boolean> {
  try {
    const {record, hasLegacyRecord} = await readVersion(table)
    return record !== undefined || hasLegacyRecord
  } catch (error) {
    // Other keys than ours.
    if (error instanceof ValidationFailed) return false
    throw error
  }
}

/** By the template that is deployed, which may be older than ours. */
async function retainedIds(aws: Aws, {name, id}: DeployedStack): Promise<Set<string>> {
  const text = await attempt(`read the template of stack "${name}"`, async () => {
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
