import {colorize} from '@oclif/core/ux'
import {formatCount} from '../../core/text.js'
import type {Deleted} from '../../infra/delete/delete.js'
import type {DeletionPlan} from '../../infra/delete/plan.js'
import type {StackResource} from '../../infra/stacks/reader.js'
import {resourceName} from './resource-name.js'

/** What goes and what stays. */
export function deletionLines(plan: DeletionPlan): string[] {
  const {deleteTable, emptyArchive} = plan
  const table = plan.table && `the table ${plan.name} with about ${formatCount(plan.table.items)} items`
  const archive = plan.archive && `the archive ${plan.archive} of audit events`
  const goes = [...plainOf(plan.goes).map(resourceName), deleteTable && table, emptyArchive && archive].filter(isLine)
  const stays = [!deleteTable && table, !emptyArchive && archive, ...plainOf(plan.stays).map(resourceName)].filter(
    isLine,
  )
  return [
    titleOf(plan),
    ...(goes.length === 0 ? [] : ['  goes:', ...goes.map(line => colorize('red', `    - ${line}`))]),
    ...(stays.length === 0 ? [] : ['  stays:', ...stays.map(line => `    ${line}`)]),
    ...(emptyArchive && !archive ? ['  --empty-archive: there is no archive of audit events'] : []),
  ]
}

function titleOf({name, region, stack, table, deleteTable}: DeletionPlan): string {
  const where = region === null ? '' : ` in ${region}`
  if (stack) return `Stack "${name}"${where} (${stack.status})`
  return table && deleteTable
    ? `The table "${name}"${where}, which belongs to no stack`
    : `What stack "${name}"${where} left`
}

/** What is asked before it. */
export function deletionQuestion(plan: DeletionPlan): string {
  const {name, region, stack, deleteTable, emptyArchive, table, archive} = plan
  const what = [
    ...(stack ? [`stack "${name}"`] : []),
    ...(deleteTable && table ? ['the table with all its data'] : []),
    ...(emptyArchive && archive ? ['the archive'] : []),
  ]
  return `This deletes ${what.join(', ')}${region === null ? '' : ` in ${region}`} for good`
}

/** What became of it, and how to get rid of the rest. */
export function stackDeletedLines(plan: DeletionPlan, deleted: Deleted): string[] {
  const {name, region, archive, table, emptyArchive} = plan
  const {stackDeleted, tableDeleted, tableLeft, archivedObjectsDeleted: objects} = deleted
  const isArchiveAlone = !stackDeleted && !tableDeleted
  const archived = `archive ${archive} of ${formatCount(objects ?? 0)} objects`
  const left = [
    ...(tableLeft ? [`    the table ${name}; to delete it too: zael delete --stack ${name} --delete-table`] : []),
    ...(archive && !emptyArchive
      ? [`    the archive ${archive}; to delete it too: aws s3 rb s3://${archive} --force`]
      : []),
  ]
  return [
    isArchiveAlone ? `The ${archived} is deleted` : `${stackDeleted ? 'Stack' : 'The table'} "${name}" is deleted`,
    ...(tableDeleted && stackDeleted ? [`  with its table of about ${formatCount(table?.items ?? 0)} items`] : []),
    ...(objects === null || isArchiveAlone ? [] : [`  with its ${archived}`]),
    ...(tableDeleted && region !== null
      ? ['  AWS keeps a last backup of a table for 35 days where point-in-time recovery was on']
      : []),
    ...(left.length === 0 ? [] : ['  left on AWS:', ...left]),
  ]
}

/** The result for programs, done or planned. */
export function deletionJson(plan: DeletionPlan, deleted: Deleted | undefined) {
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

// The table and the archive are told in words of their own; the policy of a bucket goes and stays with it.
const TOLD_APART = new Set(['AWS::DynamoDB::Table', 'AWS::S3::Bucket', 'AWS::S3::BucketPolicy'])

function plainOf(resources: readonly StackResource[]): StackResource[] {
  return resources.filter(({type}) => !TOLD_APART.has(type))
}

function isLine(line: string | false | undefined): line is string {
  return typeof line === 'string'
}
