import {colorize} from '@oclif/core/ux'
import type {Deleted} from '../infra/delete.js'
import type {DeletionPlan} from '../infra/delete-plan.js'
import type {StackResource} from '../infra/stack-reader.js'
import {formatCount} from './facts.js'
import {resourceName} from './resource-name.js'

/** What goes and what stays. */
export function deletionLines(plan: DeletionPlan): string[] {
  const {name, stack, deleteTable, emptyArchive} = plan
  const table = plan.table && `the table ${name} with about ${formatCount(plan.table.items)} items`
  const archive = plan.archive && `the archive ${plan.archive} of audit events`
  const goes = [...plainOf(plan.goes).map(resourceName), deleteTable && table, emptyArchive && archive].filter(isLine)
  const stays = [!deleteTable && table, !emptyArchive && archive, ...plainOf(plan.stays).map(resourceName)].filter(
    isLine,
  )
  return [
    stack ? `Stack "${name}" (${stack.status})` : `The table "${name}", which belongs to no stack`,
    ...(goes.length === 0 ? [] : ['  goes:', ...goes.map(line => colorize('red', `    - ${line}`))]),
    ...(stays.length === 0 ? [] : ['  stays:', ...stays.map(line => `    ${line}`)]),
  ]
}

/** What is asked before it. */
export function deletionQuestion({name, stack, deleteTable, emptyArchive, table, archive}: DeletionPlan): string {
  const what = [
    ...(stack ? [`stack "${name}"`] : []),
    ...(deleteTable && table ? ['the table with all its data'] : []),
    ...(emptyArchive && archive ? ['the archive'] : []),
  ]
  return `This deletes ${what.join(', ')} for good`
}

/** What became of it, and how to get rid of the rest. */
export function deletedLines({name, archive, table, emptyArchive}: DeletionPlan, deleted: Deleted): string[] {
  const {stackDeleted, tableDeleted, tableLeft, archivedObjectsDeleted: objects} = deleted
  const left = [
    ...(tableLeft ? [`    the table ${name}; to delete it too: zael delete --stack ${name} --delete-table`] : []),
    ...(archive && !emptyArchive
      ? [`    the archive ${archive}; to delete it too: aws s3 rb s3://${archive} --force`]
      : []),
  ]
  return [
    stackDeleted ? `Stack "${name}" is deleted` : `The table "${name}" is deleted`,
    ...(tableDeleted && stackDeleted ? [`  with its table of about ${formatCount(table?.items ?? 0)} items`] : []),
    ...(objects === null ? [] : [`  with its archive ${archive} of ${formatCount(objects)} objects`]),
    ...(tableDeleted ? ['  AWS keeps a last backup of a table for 35 days where point-in-time recovery was on'] : []),
    ...(left.length === 0 ? [] : ['  left on AWS:', ...left]),
  ]
}

/** The result for programs, done or planned. */
export function deletionJson(plan: DeletionPlan, deleted: Deleted | undefined) {
  const named = ({logicalId, physicalId, type}: StackResource) => ({logicalId, physicalId, type})
  return {
    stack: plan.name,
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
