import {InvalidInput} from '../../core/errors.js'
import {WINDOWS} from '../../core/window.js'
import {type OptionValue, parameterText, type StackOption} from './option.js'

/** Everything that can be chosen about a stack. The flags of `deploy`, the template and the documentation follow it. */
export const STACK_OPTIONS: readonly StackOption[] = [
  {
    ...named('resourceIndex', 'resource-index', 'ResourceIndexProjection', 'table'),
    ...choice('keys-only', ['keys-only', 'all'], {'keys-only': 'KEYS_ONLY', all: 'ALL'}),
    description: 'What GSI2 copies of each item. "all" doubles the price of an acquire; only Python clients need it.',
  },
  {
    ...named('encryptionKey', 'encryption-key', 'TableEncryptionKey', 'table'),
    ...text('aws-owned', 'aws-owned|aws-managed|arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+'),
    expected: 'aws-owned, aws-managed or the ARN of a KMS key',
    description: 'Key that encrypts the table: aws-owned (free), aws-managed (aws/dynamodb), or the ARN of your own.',
  },
  {
    ...named('pitrDays', 'pitr-days', 'PITRRecoveryPeriodDays', 'table'),
    ...integer(null, 1, 35, 'days'),
    description: 'How far back the table can be restored. Left out: 35 days, the default of AWS.',
  },
  {
    ...named('deletionProtection', 'deletion-protection', 'EnableDeletionProtection', 'table'),
    ...boolean(false),
    description: 'Refuse to delete the table, whoever asks.',
  },
  {
    ...named('aggregator', 'aggregator', 'EnableAggregator', 'aggregator'),
    ...boolean(true),
    description: 'Deploy the function that counts usage, splits hot buckets and archives audit events.',
  },
  {
    ...named('usageWindows', 'usage-windows', 'SnapshotWindows', 'aggregator'),
    kind: 'list',
    default: WINDOWS,
    choices: WINDOWS,
    description: 'Spans over which usage is counted.',
  },
  {
    ...named('usageRetentionDays', 'usage-retention-days', 'SnapshotRetentionDays', 'aggregator'),
    ...integer(90, 0, 3650, 'days'),
    description: 'How long usage records are kept; 0: for ever.',
  },
  {
    ...named('lambdaMemory', 'lambda-memory', 'LambdaMemorySize', 'aggregator'),
    ...integer(512, 128, 10_240, 'MB'),
    description: 'Memory of the function; its share of a processor grows with it.',
  },
  {
    ...named('lambdaTimeout', 'lambda-timeout', 'LambdaTimeout', 'aggregator'),
    ...integer(60, 1, 900, 'seconds'),
    description: 'How long the function may work on one batch.',
  },
  {
    ...named('lambdaArchitecture', 'lambda-architecture', 'LambdaArchitecture', 'aggregator'),
    ...choice('arm64', ['arm64', 'x86_64']),
    description: 'Processor of the function; arm64 is cheaper.',
  },
  {
    ...named('lambdaConcurrency', 'lambda-concurrency', 'LambdaReservedConcurrency', 'aggregator'),
    ...integer(null, 1, 1000),
    description: "Copies of the function that are reserved for this stack, and its most. Left out: the account's pool.",
  },
  {
    ...named('streamStart', 'stream-start', 'StreamStartingPosition', 'aggregator'),
    ...choice('oldest', ['oldest', 'latest'], {oldest: 'TRIM_HORIZON', latest: 'LATEST'}),
    description: 'Where a new aggregator starts. "latest" is for a table whose last day another one has counted.',
  },
  {
    ...named('batchSize', 'batch-size', 'StreamBatchSize', 'aggregator'),
    ...integer(1000, 1, 10_000, 'records'),
    description: 'Most changes handed to the function at once; many of one bucket cost no more writes than one.',
  },
  {
    ...named('batchWindow', 'batch-window', 'StreamBatchWindow', 'aggregator'),
    ...integer(5, 0, 300, 'seconds'),
    description: 'How long the function waits for a batch to fill; usage is that much behind.',
  },
  {
    ...named('tracing', 'tracing', 'EnableTracing', 'aggregator'),
    ...boolean(false),
    description: 'Trace the function with X-Ray.',
  },
  {
    ...named('logRetentionDays', 'log-retention-days', 'LogRetentionDays', 'aggregator'),
    ...choice('30', '1 3 5 7 14 30 60 90 120 150 180 365 400 545 731 1096 1827 2192 2557 2922 3288 3653'.split(' ')),
    unit: 'days',
    description: 'How long the logs of the function are kept.',
  },
  {
    ...named('auditArchive', 'audit-archive', 'EnableAuditArchival', 'archive'),
    ...boolean(true),
    description: 'Keep expired audit events in an S3 bucket; the aggregator writes it.',
  },
  {
    ...named('archiveGlacierDays', 'archive-glacier-days', 'AuditArchiveGlacierTransitionDays', 'archive'),
    ...integer(90, 1, 3650, 'days'),
    description: 'After how long archived events move to Glacier Instant Retrieval.',
  },
  {
    ...named('alarms', 'alarms', 'EnableAlarms', 'alarms'),
    ...boolean(true),
    description: 'Alarms for errors, slowness, lag and lost records of the aggregator, and for throttling.',
  },
  {
    ...named('alarmTopic', 'alarm-topic', 'AlarmSNSTopicArn', 'alarms'),
    ...text(null, 'arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_.-]+'),
    expected: 'the ARN of an SNS topic',
    description: 'Who is told when an alarm goes off, and when it is over. Left out: nobody, it only shows.',
  },
  {
    ...named('durationAlarmPercent', 'duration-alarm-percent', 'LambdaDurationAlarmPercent', 'alarms'),
    ...integer(80, 1, 100, '%'),
    description: 'Share of its timeout at which the function counts as too slow.',
  },
  {
    ...named('dashboard', 'dashboard', 'EnableDashboard', 'alarms'),
    ...boolean(true),
    description: 'A CloudWatch dashboard of the table and its aggregator.',
  },
  {
    ...named('iam', 'iam', 'EnableIAM', 'iam'),
    ...boolean(true),
    description: 'Create policies and the role of the aggregator. Off for those who may not: see --aggregator-role.',
  },
  {
    ...named('iamRoles', 'iam-roles', 'EnableIAMRoles', 'iam'),
    ...boolean(false),
    description: 'Also create roles that hold the policies: app (acquire), admin (full) and read.',
  },
  {
    ...named('aggregatorRole', 'aggregator-role', 'AggregatorRoleArn', 'iam'),
    ...text(null, 'arn:aws[a-z-]*:iam::[0-9]{12}:role/.{1,576}'),
    expected: 'the ARN of an IAM role',
    description: 'Run the aggregator under a role that exists already.',
  },
  {
    ...named('permissionBoundary', 'permission-boundary', 'PermissionBoundary', 'iam'),
    ...text(null, '[A-Za-z0-9_+=,.@-]{1,128}|arn:aws[a-z-]*:iam::([0-9]{12}|aws):policy/.{1,576}'),
    expected: 'the name or the ARN of an IAM policy',
    description: 'Permission boundary of every role of the stack: name or ARN of a policy.',
  },
  {
    ...named('roleNameFormat', 'role-name-format', 'RoleNameFormat', 'iam'),
    ...nameFormat(55),
    description: 'How roles are named: "team-{}-v1" gives team-STACK-aggr-v1.',
  },
  {
    ...named('policyNameFormat', 'policy-name-format', 'PolicyNameFormat', 'iam'),
    ...nameFormat(120),
    description: 'How policies are named: "team-{}" gives team-STACK-acq.',
  },
]

/** Options by name; those not named keep their deployed value, or their default on a new stack. */
export type StackOptionValues = Readonly<Record<string, OptionValue>>

/** The template's parameters for the given options. */
export function parametersOf(values: StackOptionValues): Record<string, string> {
  const parameters = Object.entries(values).map(([name, value]) => {
    const option = STACK_OPTIONS.find(each => each.name === name)
    if (!option) throw new InvalidInput('deploy.option', `A stack has no option "${name}".`, {details: {option: name}})
    return [option.parameter, parameterText(option, value)]
  })
  return Object.fromEntries(parameters)
}

function named(name: string, flag: string, parameter: string, group: StackOption['group']) {
  return {name, flag, parameter, group}
}

function boolean(byDefault: boolean) {
  return {kind: 'boolean', default: byDefault} as const
}

function integer(byDefault: number | null, min: number, max: number, unit?: string) {
  return {kind: 'integer', default: byDefault, min, max, ...(unit === undefined ? {} : {unit})} as const
}

function choice(byDefault: string, choices: readonly string[], spelled?: Readonly<Record<string, string>>) {
  return {kind: 'choice', default: byDefault, choices, ...(spelled === undefined ? {} : {spelled})} as const
}

function text(byDefault: string | null, pattern: string) {
  return {kind: 'text', default: byDefault, pattern} as const
}

/** `{}` stands for the stack's name and what the role or policy is for. */
function nameFormat(longest: number) {
  const expected = `letters, digits and _+=,.@- with one {} for the name, at most ${longest} characters`
  // The lookahead counts; the rest says where `{}` may stand.
  const pattern = `(?=.{2,${longest}}$)[A-Za-z0-9_+=,.@-]*[{][}][A-Za-z0-9_+=,.@-]*`
  return {...text('{}', pattern), expected} as const
}
