import {ZaelError} from '../../core/errors.js'
import {ValidationFailed} from '../../dynamo/errors.js'
import type {Table} from '../../repository/table/table.js'
import {readVersion} from '../../repository/table/version.js'

/** What to delete beside the stack; each has to be requested explicitly. */
export interface DeletionRequest {
  readonly deleteTable: boolean
  readonly emptyArchive: boolean
  /** ARN of the service role for CloudFormation; absent: the role that the stack has, or the caller's permissions. */
  readonly cloudFormationRole?: string | undefined
}

interface Leftovers {
  readonly hasTable: boolean
  /** Name of the bucket with archived audit events. */
  readonly archive: string | undefined
}

/** Throws when the stack is gone and nothing of the rest is to be deleted, or the table is not a rate limiter's. */
export async function checkLeftovers(table: Table, {hasTable, archive}: Leftovers, request: DeletionRequest) {
  const {name} = table
  const {deleteTable, emptyArchive} = request
  if (hasTable && !(await isLimiterTable(table))) {
    throw new ZaelError('conflict', 'table.foreign', `The table "${name}" is not a rate limiter's.`, {
      hint: 'Nothing was changed. Check --stack, --region and --profile.',
      details: {stack: name},
    })
  }
  if ((hasTable && deleteTable) || (archive !== undefined && emptyArchive)) return
  throw nothingToDelete(name, {hasTable, archive}, emptyArchive)
}

function nothingToDelete(name: string, {hasTable, archive}: Leftovers, isArchiveRequested: boolean): ZaelError {
  const none = `There is no stack "${name}" here`
  const failure = (message: string, hint: string) =>
    new ZaelError('notFound', 'stack.missing', message, {hint, details: {stack: name}})
  if (hasTable) {
    const noArchive = isArchiveRequested ? ' and no archive of its audit events' : ''
    const hint = `To delete the table with all its data: zael delete --stack ${name} --delete-table`
    return failure(`${none}${noArchive}, only a table of that name.`, hint)
  }
  if (archive !== undefined) {
    const hint = `To delete the archive: zael delete --stack ${name} --empty-archive`
    return failure(`${none}, only the archive ${archive} of its audit events.`, hint)
  }
  const hint = 'Check --stack, --region and --profile; `zael list` shows the stacks of a region.'
  return isArchiveRequested
    ? failure(`${none}, no table of that name, and no archive of its audit events.`, hint)
    : failure(`${none}, and no table of that name.`, hint)
}

async function isLimiterTable(table: Table): Promise<boolean> {
  try {
    const {record, hasLegacyRecord} = await readVersion(table)
    return record !== undefined || hasLegacyRecord
  } catch (error) {
    // The table has another key schema.
    if (error instanceof ValidationFailed) return false
    throw error
  }
}
