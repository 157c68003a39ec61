import {InvalidInput} from '../../core/errors.js'
import {WINDOWS} from '../../core/window.js'

/** `null`: not set; only for options that have no default. */
export type OptionValue = boolean | number | string | readonly string[] | null

export interface StackOption {
  readonly name: string
  readonly flag: string
  readonly parameter: string
  readonly group: 'table' | 'aggregator' | 'archive' | 'alarms' | 'iam'
  readonly kind: 'boolean' | 'integer' | 'choice' | 'text' | 'list'
  readonly default: OptionValue
  readonly min?: number
  readonly max?: number
  /** Values of a choice, or allowed elements of a list. */
  readonly choices?: readonly string[]
  /** The template's values for the choices, where they differ. */
  readonly spelled?: Readonly<Record<string, string>>
  readonly pattern?: string
  /** Completes "it must be …". */
  readonly expected?: string
  readonly unit?: string
  readonly description: string
}

/** Above any AWS quota. */
const MAX_UNITS = 999_999_999

/** The flags of `deploy`, the template's parameters and the documentation must match this list. */
export const STACK_OPTIONS: readonly StackOption[] = [
  {
    ...named('resourceIndex', 'resource-index', 'ResourceIndexProjection', 'table'),
    ...choice('keys-only', ['keys-only', 'all'], {'keys-only': 'KEYS_ONLY', all: 'ALL'}),
    description: 'Attributes in index GSI2. "all" doubles the cost of an acquire; only Python clients need it.',
  },
  {
    ...named('encryptionKey', 'encryption-key', 'TableEncryptionKey', 'table'),
    ...text('aws-owned', 'aws-owned|aws-managed|arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+'),
    expected: 'aws-owned, aws-managed or the ARN of a KMS key',
    description:
      'Key that encrypts the table: aws-owned (free), aws-managed (aws/dynamodb), or the ARN of your own key.',
  },
  {
    ...named('pitrDays', 'pitr-days', 'PITRRecoveryPeriodDays', 'table'),
    ...integer(null, 1, 35, 'days'),
    description: 'Days of point-in-time recovery. Default: 35, set by AWS.',
  },
  {
    ...named('deletionProtection', 'deletion-protection', 'EnableDeletionProtection', 'table'),
    ...boolean(false),
    description: 'Protect the table against deletion.',
  },
  {
    ...named('onDemandMaxReads', 'on-demand-max-reads', 'OnDemandMaxReadUnits', 'table'),
    ...integer(null, 1, MAX_UNITS, 'units a second'),
    description: 'Maximum read units per second, to cap the cost. DynamoDB throttles requests above it.',
  },
  {
    ...named('onDemandMaxWrites', 'on-demand-max-writes', 'OnDemandMaxWriteUnits', 'table'),
    ...integer(null, 1, MAX_UNITS, 'units a second'),
    description:
      'Maximum write units per second. DynamoDB throttles requests above it; the outage policy then applies.',
  },
  {
    ...named('warmReads', 'warm-throughput-reads', 'WarmReadUnits', 'table'),
    ...integer(null, 12_000, MAX_UNITS, 'units a second'),
    description: 'Read units per second to pre-warm the table for. A one-time charge; cannot be lowered.',
  },
  {
    ...named('warmWrites', 'warm-throughput-writes', 'WarmWriteUnits', 'table'),
    ...integer(null, 4_000, MAX_UNITS, 'units a second'),
    description: 'Write units per second to pre-warm the table for. A one-time charge; cannot be lowered.',
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
    description: 'Windows to count usage in.',
  },
  {
    ...named('usageRetentionDays', 'usage-retention-days', 'SnapshotRetentionDays', 'aggregator'),
    ...integer(90, 0, 3650, 'days'),
    description: 'Days to keep usage records. 0 keeps them forever.',
  },
  {
    ...named('lambdaMemory', 'lambda-memory', 'LambdaMemorySize', 'aggregator'),
    ...integer(512, 128, 10_240, 'MB'),
    description:
      'Memory of the function; Lambda allocates CPU in proportion. Below 256, --batch-size must be 500 or less.',
  },
  {
    ...named('lambdaTimeout', 'lambda-timeout', 'LambdaTimeout', 'aggregator'),
    ...integer(60, 1, 900, 'seconds'),
    description: 'Timeout of the function for one batch.',
  },
  {
    ...named('lambdaArchitecture', 'lambda-architecture', 'LambdaArchitecture', 'aggregator'),
    ...choice('arm64', ['arm64', 'x86_64']),
    description: 'Processor architecture of the function; arm64 is cheaper.',
  },
  {
    ...named('runtime', 'runtime', 'LambdaRuntime', 'aggregator'),
    ...choice('nodejs24.x', ['nodejs24.x', 'nodejs22.x']),
    description: 'Node.js version of the function.',
  },
  {
    ...named('lambdaConcurrency', 'lambda-concurrency', 'LambdaReservedConcurrency', 'aggregator'),
    ...integer(null, 1, 1000),
    description: "Reserved and maximum concurrency of the function. Default: the account's shared pool.",
  },
  {
    ...named('streamStart', 'stream-start', 'StreamStartingPosition', 'aggregator'),
    ...choice('oldest', ['oldest', 'latest'], {oldest: 'TRIM_HORIZON', latest: 'LATEST'}),
    description:
      'Stream position where a new aggregator starts. Choose "latest" if another aggregator counted the last 24 hours.',
  },
  {
    ...named('batchSize', 'batch-size', 'StreamBatchSize', 'aggregator'),
    ...integer(2600, 1, 10_000, 'records'),
    description: 'Maximum records per batch. The function writes each bucket once per batch.',
  },
  {
    ...named('batchWindow', 'batch-window', 'StreamBatchWindow', 'aggregator'),
    ...integer(30, 0, 300, 'seconds'),
    description: 'Maximum wait for a batch to fill. Delays usage by this time.',
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
    description: 'Days to keep the logs of the function.',
  },
  {
    ...named('auditArchive', 'audit-archive', 'EnableAuditArchival', 'archive'),
    ...boolean(true),
    description: 'Archive expired audit events in an S3 bucket. Requires the aggregator.',
  },
  {
    ...named('archiveGlacierDays', 'archive-glacier-days', 'AuditArchiveGlacierTransitionDays', 'archive'),
    ...integer(90, 1, 3650, 'days'),
    description: 'Days before archived events move to Glacier Instant Retrieval.',
  },
  {
    ...named('alarms', 'alarms', 'EnableAlarms', 'alarms'),
    ...boolean(true),
    description: 'Create alarms for errors, duration, lag and lost records of the aggregator, and for throttling.',
  },
  {
    ...named('alarmTopic', 'alarm-topic', 'AlarmSNSTopicArn', 'alarms'),
    ...text(null, 'arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_.-]+'),
    expected: 'the ARN of an SNS topic',
    description: 'SNS topic to notify when an alarm goes off or clears. Default: no notifications.',
  },
  {
    ...named('durationAlarmPercent', 'duration-alarm-percent', 'LambdaDurationAlarmPercent', 'alarms'),
    ...integer(80, 1, 100, '%'),
    description: 'Share of the function timeout at which the duration alarm goes off.',
  },
  {
    ...named('dashboard', 'dashboard', 'EnableDashboard', 'alarms'),
    ...boolean(true),
    description: 'Create a CloudWatch dashboard for the table and its aggregator.',
  },
  {
    ...named('iam', 'iam', 'EnableIAM', 'iam'),
    ...boolean(true),
    description: 'Create IAM policies and the role of the aggregator. With --no-iam, set --aggregator-role.',
  },
  {
    ...named('iamRoles', 'iam-roles', 'EnableIAMRoles', 'iam'),
    ...boolean(false),
    description: 'Also create roles with these policies: app (acquire), admin (full) and read.',
  },
  {
    ...named('aggregatorRole', 'aggregator-role', 'AggregatorRoleArn', 'iam'),
    ...text(null, 'arn:aws[a-z-]*:iam::[0-9]{12}:role/.{1,576}'),
    expected: 'the ARN of an IAM role',
    description: 'ARN of an existing aggregator role.',
  },
  {
    ...named('permissionBoundary', 'permission-boundary', 'PermissionBoundary', 'iam'),
    ...text(null, '[A-Za-z0-9_+=,.@-]{1,128}|arn:aws[a-z-]*:iam::([0-9]{12}|aws):policy/.{1,576}'),
    expected: 'the name or the ARN of an IAM policy',
    description: 'Permissions boundary of all roles: name or ARN of a policy.',
  },
  {
    ...named('roleNameFormat', 'role-name-format', 'RoleNameFormat', 'iam'),
    ...nameFormat(55),
    description: 'Format of role names, such as "team-{}-v1" for team-STACK-aggr-v1.',
  },
  {
    ...named('policyNameFormat', 'policy-name-format', 'PolicyNameFormat', 'iam'),
    ...nameFormat(120),
    description: 'Format of policy names, such as "team-{}" for team-STACK-acq.',
  },
  {
    ...named('rolePath', 'role-path', 'RolePath', 'iam'),
    ...text('/', '/([A-Za-z0-9_+=,.@-]{1,64}/){0,7}'),
    expected: 'an IAM path that begins and ends with a slash',
    description: 'IAM path of all roles, for accounts that require one. To change it, also change --role-name-format.',
  },
]

/** Parameters of the template for other tools, all empty by default. `deploy` has no flags for them and keeps their values. */
export const OTHER_PARAMETERS: readonly string[] = ['TableName', 'CodeBucket', 'CodeKey']

export const DEFAULT_PARAMETERS: Readonly<Record<string, string>> = Object.fromEntries(
  STACK_OPTIONS.map(option => [option.parameter, parameterText(option, option.default)]),
)

/** Options by name; absent ones keep their deployed value, or get their default on a new stack. */
export type StackOptionValues = Readonly<Record<string, OptionValue>>

export function parametersOf(values: StackOptionValues): Record<string, string> {
  const parameters = Object.entries(values).map(([name, value]) => {
    const option = STACK_OPTIONS.find(each => each.name === name)
    if (!option) throw new InvalidInput('deploy.option', `Unknown option "${name}".`, {details: {option: name}})
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

/** `{}` stands for the default name: the stack's name and the purpose of the role or policy. */
function nameFormat(maxLength: number) {
  const expected = `letters, digits and _+=,.@- with one {} for the name, at most ${maxLength} characters`
  // The lookahead limits the length; the rest allows `{}` in one place.
  const pattern = `(?=.{2,${maxLength}}$)[A-Za-z0-9_+=,.@-]*[{][}][A-Za-z0-9_+=,.@-]*`
  return {...text('{}', pattern), expected} as const
}

export function requestedResourceIndex({resourceIndex}: StackOptionValues): 'KEYS_ONLY' | 'ALL' | undefined {
  if (resourceIndex === undefined) return undefined
  return parametersOf({resourceIndex}).ResourceIndexProjection === 'ALL' ? 'ALL' : 'KEYS_ONLY'
}

export function resourceIndexOption(projection: string): string {
  const {spelled = {}} = STACK_OPTIONS.find(({name}) => name === 'resourceIndex') ?? {}
  return Object.entries(spelled).find(([, parameter]) => parameter === projection)?.[0] ?? projection
}

export function parameterText({spelled}: StackOption, value: OptionValue): string {
  if (value === null) return ''
  const text = Array.isArray(value) ? value.join(',') : String(value)
  return spelled?.[text] ?? text
}

export function expectedOf({kind, min, max, choices = [], expected, unit}: StackOption): string {
  switch (kind) {
    case 'boolean':
      return 'true or false'
    case 'integer':
      return `a whole number from ${min} to ${max}${unit === undefined ? '' : ` (${unit})`}`
    case 'choice':
      return choices.length > 8 ? `one of ${choices.join(', ')}` : choices.join(' or ')
    case 'list':
      return `some of ${choices.join(', ')}, separated by commas`
    case 'text':
      return expected ?? 'a text'
  }
}
