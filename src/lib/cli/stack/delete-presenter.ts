import {formatCount, formatList} from '../../core/text/text.js'
import type {Deleted} from '../../infra/deploy/delete.js'
import type {DeletionPlan} from '../../infra/deploy/delete-plan.js'
import type {StackResource} from '../../infra/stack/reader.js'
import {paint} from '../output/lines.js'
import {resourceName} from './deploy-presenter.js'
import type {DeleteResult} from './results.js'

export function deletionLines(plan: DeletionPlan): string[] {
  const {deleteTable, emptyArchive} = plan
  const table = plan.table && `the table ${plan.name} with about ${formatCount(plan.table.items)} items`
  const archive = plan.archive && `the audit archive ${plan.archive}`
  const deleted = [...plainOf(plan.goes).map(resourceName), deleteTable && table, emptyArchive && archive].filter(
    isLine,
  )
  const kept = [!deleteTable && table, !emptyArchive && archive, ...plainOf(plan.stays).map(resourceName)].filter(
    isLine,
  )
  const role = plan.cloudFormationRole ?? plan.stack?.role
  return [
    titleOf(plan),
    ...(plan.stack && role ? [`  CloudFormation assumes ${role}`] : []),
    ...(deleted.length === 0 ? [] : ['  deleted:', ...deleted.map(line => paint('red', `    - ${line}`))]),
    ...(kept.length === 0 ? [] : ['  kept:', ...kept.map(line => `    ${line}`)]),
    ...(emptyArchive && !archive ? ['  --empty-archive: no audit archive found'] : []),
  ]
}

function titleOf({name, region, stack, table, deleteTable}: DeletionPlan): string {
  const where = region === null ? '' : ` in ${region}`
  if (stack) return `Stack "${name}"${where} (${stack.status})`
  return table && deleteTable
    ? `Table "${name}"${where}, which belongs to no stack`
    : `Resources that an earlier deletion of stack "${name}"${where} kept`
}

export function deletionQuestion(plan: DeletionPlan): string {
  const {name, region, stack, deleteTable, emptyArchive, table, archive} = plan
  const what = [
    ...(stack ? [`stack "${name}"`] : []),
    ...(deleteTable && table ? ['the table with all its data'] : []),
    ...(emptyArchive && archive ? ['the audit archive'] : []),
  ]
  return `This permanently deletes ${formatList(what)}${region === null ? '' : ` in ${region}`}`
}

export function stackDeletedLines(plan: DeletionPlan, deleted: Deleted): string[] {
  const {name, region, archive, table, emptyArchive} = plan
  const {stackDeleted, tableDeleted, tableLeft, archivedObjectsDeleted: objects} = deleted
  const isArchiveAlone = !stackDeleted && !tableDeleted
  const archived = `audit archive ${archive} of ${formatCount(objects ?? 0)} objects`
  const left = [
    ...(tableLeft ? [`    the table ${name}. Delete it: zael delete --stack ${name} --delete-table`] : []),
    ...(archive && !emptyArchive
      ? [`    the audit archive ${archive}. Delete it: aws s3 rb s3://${archive} --force`]
      : []),
  ]
  return [
    isArchiveAlone ? `Deleted ${archived}` : `Deleted ${stackDeleted ? 'stack' : 'table'} "${name}"`,
    ...(tableDeleted && stackDeleted ? [`  with its table of about ${formatCount(table?.items ?? 0)} items`] : []),
    ...(objects === null || isArchiveAlone ? [] : [`  with its ${archived}`]),
    ...(tableDeleted && region !== null
      ? ['  If point-in-time recovery was on, AWS keeps a final backup of the table for 35 days']
      : []),
    ...(left.length === 0 ? [] : ['  kept on AWS:', ...left]),
  ]
}

export function deletionJson(plan: DeletionPlan, deleted: Deleted | undefined): DeleteResult {
  const named = ({logicalId, physicalId, type}: StackResource) => ({logicalId, physicalId, type})
  return {
    stack: plan.name,
    region: plan.region,
    dryRun: deleted === undefined,
    status: plan.stack?.status ?? null,
    goes: plan.goes.map(named),
    stays: plan.stays.map(named),
    table: plan.table ? {...plan.table, delete: plan.deleteTable} : null,
    archive: plan.archive === undefined ? null : {bucket: plan.archive, delete: plan.emptyArchive},
    result: deleted ?? null,
  }
}

// Table and archive have their own lines; a bucket policy belongs to its bucket.
const LISTED_SEPARATELY = new Set(['AWS::DynamoDB::Table', 'AWS::S3::Bucket', 'AWS::S3::BucketPolicy'])

function plainOf(resources: readonly StackResource[]): StackResource[] {
  return resources.filter(({type}) => !LISTED_SEPARATELY.has(type))
}

function isLine(line: string | false | undefined): line is string {
  return typeof line === 'string'
}
