import type {StackOwner} from './reader.js'

/** A deployment neither recreates a table that CloudFormation believes to exist nor restores data. */
export const LOST_TABLE_FIX = 'Restore it as described in docs/operations.md#restoring-a-lost-table'

export function deployCommand(stack: string, owner: StackOwner | undefined): string {
  return owner === 'zae-limiter' ? 'Adopt the stack as described in docs/operations.md' : `zael deploy --stack ${stack}`
}

export function rebuildCommand(stack: string, owner: StackOwner | undefined): string {
  const deploy = deployCommand(stack, owner)
  return owner === 'zae-limiter' ? deploy : `${deploy} --repair`
}

/** A migration adds missing parts of the table's layout. */
export function repairCommand(stack: string): string {
  return `zael migrate plan --stack ${stack}`
}

/** A stream's view type cannot be changed: disable the stream, then a migration adds it again. */
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
