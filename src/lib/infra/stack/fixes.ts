import type {StackOwner} from './reader.js'

/** A deployment does not recreate what CloudFormation believes to exist, and cannot restore data. */
export const LOST_TABLE_FIX = 'Restore it as described in docs/operations.md#restoring-a-lost-table'

/** zael does not deploy stacks of the Python tool. */
export function deployCommand(stack: string, owner: StackOwner | undefined): string {
  return owner === 'zae-limiter' ? 'Adopt the stack as described in docs/operations.md' : `zael deploy --stack ${stack}`
}

/** Creates again what was deleted without CloudFormation, and sets back what was changed. */
export function rebuildCommand(stack: string, owner: StackOwner | undefined): string {
  const deploy = deployCommand(stack, owner)
  return owner === 'zae-limiter' ? deploy : `${deploy} --repair`
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
