import {GetTemplateCommand} from '@aws-sdk/client-cloudformation'
import {valueFor, ZaelError} from '../../core/errors.js'
import {ValidationFailed} from '../../dynamo/errors.js'
import {parseTemplate} from '../../files/template-yaml.js'
import {describeTable, type Table, untilAborted} from '../../repository/table/table.js'
import {readVersion} from '../../repository/table/version.js'
import {type Aws, awsUntilAborted} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'
import {findArchive, readFormerStack} from '../stack/archive.js'
import {LOGICAL_ID} from '../stack/artifacts.js'
import {
  checkOwner,
  type DeployedStack,
  instantMs,
  isEmptyStack,
  readStack,
  readStackResources,
  type StackResource,
  unusableStack,
} from '../stack/reader.js'

export type DeletionPlan = Readonly<Awaited<ReturnType<typeof planDeletion>>>

export async function planDeletion(
  services: Aws | undefined,
  givenTable: Table,
  request: DeletionRequest,
  signal?: AbortSignal,
) {
  const aws = services && awsUntilAborted(services, signal)
  const table = signal ? untilAborted(givenTable, signal) : givenTable
  const {name} = table
  const stack = aws && (await readStack(aws, name))
  // The empty stack of an unexecuted plan can always be deleted: it has neither template nor resources.
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
    await checkLeftovers(aws, table, {hasTable: found !== undefined, archive}, request)
  }
  const part = resources.find(({logicalId}) => logicalId === LOGICAL_ID.table)
  // A failed creation may have found a table of another owner.
  const isProven = part?.physicalId === name && part.status !== 'CREATE_FAILED'
  if (deployed && found && request.deleteTable && !isProven) throw unprovenTable(deployed, part)
  if (request.deleteTable && found?.isProtected) throw deletionProtected(name, deployed)
  if (part && found && !kept.has(LOGICAL_ID.table) && !request.deleteTable) throw tableNotKept(name)
  return {
    ...request,
    name,
    region: aws ? await aws.region() : null,
    /** `undefined`: only the table or the archive is left, or it is a local engine. */
    stack,
    goes: resources.filter(({logicalId}) => !kept.has(logicalId)),
    stays,
    table: found,
    /** Bucket with audit events of this stack, or of the last deleted one. */
    archive,
  }
}

/** `items`: DynamoDB's count, up to six hours old. */
export async function readTable(table: Table) {
  const found = await describeTable(table)
  if (!found) return undefined
  return {name: table.name, items: found.ItemCount ?? 0, isProtected: found.DeletionProtectionEnabled ?? false}
}

/** Reads the deployed template, which may be older than this package's. */
async function retainedIds(aws: Aws, {name, id}: DeployedStack): Promise<Set<string>> {
  const text = await callAws(`read the template of stack "${name}"`, async () => {
    const client = await aws.cloudFormation()
    return (await client.send(new GetTemplateCommand({StackName: id, TemplateStage: 'Original'}))).TemplateBody ?? ''
  })
  const {Resources = {}} = parseTemplate(text) ?? {}
  const entries = Object.entries(Resources as Record<string, {DeletionPolicy?: unknown}>)
  return new Set(
    entries.filter(([, {DeletionPolicy}]) => String(DeletionPolicy).startsWith('Retain')).map(([key]) => key),
  )
}

function tableNotKept(name: string): ZaelError {
  const message = `The template of stack "${name}" does not retain the table: CloudFormation would delete it with all its data.`
  return new ZaelError('conflict', 'delete.table-not-kept', message, {
    hint: `Nothing was deleted. To keep the table, update the stack first: zael deploy --stack ${name}; to delete the table, add --delete-table.`,
    details: {stack: name},
  })
}

function unprovenTable({name, status}: DeployedStack, part: StackResource | undefined): ZaelError {
  const why = part
    ? `its table is "${part.physicalId ?? ''}" (${part.status})`
    : 'the stack has no table, or deleted its own'
  const message = `zael cannot verify that the table "${name}" belongs to stack "${name}" (${status}): ${why}.`
  return new ZaelError('conflict', 'delete.table-unproven', message, {
    hint:
      `Nothing was deleted. Delete the stack first, which keeps the table: zael delete --stack ${name}\n` +
      `Then delete the table if it is a rate limiter table: zael delete --stack ${name} --delete-table`,
    details: {stack: name, status, table: part?.physicalId ?? null},
  })
}

function deletionProtected(name: string, stack: DeployedStack | undefined): ZaelError {
  const off =
    stack && stack.status !== 'DELETE_FAILED'
      ? `zael deploy --stack ${name} --no-deletion-protection`
      : `aws dynamodb update-table --table-name ${name} --no-deletion-protection-enabled`
  return new ZaelError('conflict', 'table.protected', `The table "${name}" is protected against deletion.`, {
    hint: `Nothing was deleted. To delete its data, turn off the protection first: ${off}`,
    details: {stack: name},
  })
}

function terminationProtected(name: string): ZaelError {
  return new ZaelError('conflict', 'stack.protected', `Stack "${name}" is protected against termination.`, {
    hint: `Nothing was deleted. Turn off the protection first: zael deploy --stack ${name} --no-termination-protection`,
    details: {stack: name},
  })
}

export interface DeletionRequest {
  readonly deleteTable: boolean
  readonly emptyArchive: boolean
  /** ARN; absent: the role that the stack has, or the caller's permissions. */
  readonly cloudFormationRole?: string | undefined
}

interface Leftovers {
  readonly hasTable: boolean
  readonly archive: string | undefined
}

async function checkLeftovers(aws: Aws | undefined, table: Table, left: Leftovers, request: DeletionRequest) {
  const {name} = table
  const {hasTable, archive} = left
  const {deleteTable, emptyArchive} = request
  const isOurs = !hasTable || (await isLimiterTable(table)) || (aws && (await isFormerTable(aws, table)))
  if (!isOurs) throw unknownTable(name)
  if ((hasTable && deleteTable) || (archive !== undefined && emptyArchive)) return
  throw nothingToDelete(name, left, emptyArchive)
}

function nothingToDelete(name: string, {hasTable, archive}: Leftovers, isArchiveRequested: boolean): ZaelError {
  const none = `Stack "${name}" not found`
  const failure = (message: string, hint: string) =>
    new ZaelError('notFound', 'stack.missing', message, {hint, details: {stack: name}})
  if (hasTable) {
    const noArchive = isArchiveRequested ? ' and it has no audit archive' : ''
    const hint = `To delete the table with all its data: zael delete --stack ${name} --delete-table`
    return failure(`${none}${noArchive}; only a table with this name exists.`, hint)
  }
  if (archive !== undefined) {
    const hint = `To delete the archive: zael delete --stack ${name} --empty-archive`
    return failure(`${none}; only its audit archive ${archive} exists.`, hint)
  }
  const hint = 'Check --stack, --region and --profile. `zael list` shows the stacks of a region.'
  return isArchiveRequested
    ? failure(`${none}, and neither a table with this name nor an audit archive.`, hint)
    : failure(`${none}, and no table with this name.`, hint)
}

/** A table with another key schema does not belong to a limiter. */
async function isLimiterTable(table: Table): Promise<boolean> {
  const stored = await readVersion(table).catch(valueFor([ValidationFailed], undefined))
  return stored !== undefined && (stored.record !== undefined || stored.hasLegacyRecord)
}

/** Whether a deleted stack created and kept the table. Adopted tables are older, but have a version record. */
async function isFormerTable(aws: Aws, {transport, name: TableName}: Table): Promise<boolean> {
  const former = await readFormerStack(aws, TableName)
  const kept = former?.resources.find(({logicalId}) => logicalId === LOGICAL_ID.table)
  if (!former?.createdAt || kept?.physicalId !== TableName || kept.status !== 'DELETE_SKIPPED') return false
  const {Table: found} = await transport.send('DescribeTable', {TableName})
  const createdMs = instantMs(found?.CreationDateTime ?? 0)
  return former.createdAt.getTime() <= createdMs && createdMs <= former.deletedAtMs
}

function unknownTable(name: string): ZaelError {
  const why = `it has no version record, and no deleted zael stack "${name}" left it behind`
  const message = `The table "${name}" may not belong to a rate limiter: ${why}.`
  return new ZaelError('conflict', 'table.foreign', message, {
    hint: `Nothing was deleted. Check --stack, --region and --profile. If nobody needs the table: aws dynamodb delete-table --table-name ${name}`,
    details: {stack: name},
  })
}
