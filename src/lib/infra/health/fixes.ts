import type {StackOwner} from '../stacks/reader.js'

/** A deployment does not recreate what CloudFormation believes to exist, and cannot restore data. */
export const LOST_TABLE_FIX = 'Restore it as described in docs/deploying.md#restoring-a-lost-table'

/** zael does not deploy stacks of the Python tool. */
export function deployCommand(stack: string, owner: StackOwner | undefined): string {
  return owner === 'zae-limiter' ? 'Adopt the stack as described in docs/deploying.md' : `zael deploy --stack ${stack}`
}

/** CloudFormation does not notice resources that were deleted outside of it; removing and adding the alarms recreates them. */
export function rebuildAlarms(stack: string, owner: StackOwner | undefined): string {
  const deploy = deployCommand(stack, owner)
  return owner === 'zae-limiter' ? deploy : `${deploy} --no-alarms, then the same with --alarms`
}

/** Removing and adding the aggregator would also delete dead letters, logs and archive; the guide shows how to keep them. */
export function rebuildAggregator(stack: string, owner: StackOwner | undefined): string {
  if (owner === 'zae-limiter') return deployCommand(stack, owner)
  return 'Recreate it as described in docs/deploying.md#parts-that-are-gone, which keeps dead letters, logs and archive'
}

/** A migration adds missing parts of the table's layout. */
export function repairCommand(stack: string): string {
  return `zael migrate plan --stack ${stack}`
}

/** The view type of a stream cannot be changed: the stream has to be disabled, and is then added again. */
export function restreamCommand(stack: string): string {
  const off = `aws dynamodb update-table --table-name ${stack} --stream-specification StreamEnabled=false`
  return `${off}, then ${repairCommand(stack)}`
}

/** Enables point-in-time recovery. */
export function recoveryCommand(stack: string): string {
  const on = '--point-in-time-recovery-specification PointInTimeRecoveryEnabled=true'
  return `aws dynamodb update-continuous-backups --table-name ${stack} ${on}`
}

/** Shows the log of the function. */
export function logsCommand(functionName: string): string {
  return `aws logs tail /aws/lambda/${functionName} --since 1d`
}
