import type {StackOwner} from '../stacks/reader.js'

/** A deploy does not bring back what CloudFormation believes to be there, and no deploy brings back data. */
export const LOST_TABLE_FIX = 'docs/deploying.md#restoring-a-lost-table tells how to get it back'

/** The Python tool looks after its own stacks; zael leaves them alone. */
export function deployCommand(stack: string, owner: StackOwner | undefined): string {
  return owner === 'zae-limiter' ? 'docs/deploying.md tells how to adopt a stack' : `zael deploy --stack ${stack}`
}

/** CloudFormation does not notice what was deleted behind its back; without alarms and with them again, it makes them anew. */
export function rebuildAlarms(stack: string, owner: StackOwner | undefined): string {
  const deploy = deployCommand(stack, owner)
  return owner === 'zae-limiter' ? deploy : `${deploy} --no-alarms, then the same with --alarms`
}

/** The same with the aggregator would take the dead letters, the logs and the archive along; it takes steps to spare them. */
export function rebuildAggregator(stack: string, owner: StackOwner | undefined): string {
  if (owner === 'zae-limiter') return deployCommand(stack, owner)
  return 'docs/deploying.md#parts-that-are-gone tells how to make it anew and keep dead letters, logs and archive'
}

/** What a table lacks of its layout is added by a migration. */
export function repairCommand(stack: string): string {
  return `zael migrate plan --stack ${stack}`
}

/** What a stream tells cannot be changed: it has to be switched off, and is then added anew. */
export function restreamCommand(stack: string): string {
  const off = `aws dynamodb update-table --table-name ${stack} --stream-specification StreamEnabled=false`
  return `${off}, then ${repairCommand(stack)}`
}

/** Switches point-in-time recovery on. */
export function recoveryCommand(stack: string): string {
  const on = '--point-in-time-recovery-specification PointInTimeRecoveryEnabled=true'
  return `aws dynamodb update-continuous-backups --table-name ${stack} ${on}`
}
