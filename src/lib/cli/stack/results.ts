import * as z from 'zod'
import {strictObject} from 'zod'
import {count, listOf, type ResultOf, textOrNull} from '../output/results.js'

const engineKindSchema = z.enum(['dynoxide', 'dynamodb-local', 'docker']).meta({id: 'EngineKind'})

const localStackSchema = strictObject({
  stack: z.literal('local'),
  pid: z.int().describe('Process of the supervisor'),
  engine: engineKindSchema,
  engineVersion: z.string(),
  endpoint: z.string(),
  port: z.int(),
  dataDir: textOrNull.describe('Null: in memory'),
  startedAt: z.string().describe('ISO 8601, UTC'),
  version: z.string().describe('zael version that started the stack'),
})

export const localAggregatorSchema = strictObject({
  records: z.int(),
  batches: z.int(),
  snapshots: z.int(),
  refused: z.int().describe('Requests refused by zael limiters'),
  refills: z.int(),
  splits: z.int(),
  archived: z.int(),
  errors: z.int(),
  lastError: textOrNull,
  lagMs: z.number(),
  streamLength: z.int().nullable().describe('Null before the first read and while records are pending'),
}).meta({id: 'LocalAggregator'})

export const localDownResult = strictObject({
  stopped: z.boolean(),
  endpoint: textOrNull.describe('Former endpoint; null: the stack was not running'),
  purged: textOrNull.describe('Deleted folder'),
}).meta({title: 'zael local down'})
export type LocalDownResult = ResultOf<typeof localDownResult>

export const localEnvResult = strictObject({
  variables: z.record(z.string(), z.string()),
  unset: z.array(z.string()).describe('With --unset: variables to remove from the shell'),
}).meta({title: 'zael local env'})
export type LocalEnvResult = ResultOf<typeof localEnvResult>

export const localLogsResult = strictObject({
  file: z.string(),
  entries: listOf({
    time: textOrNull,
    level: textOrNull,
    message: z.string(),
    fields: z.record(z.string(), z.unknown()),
  }),
}).meta({title: 'zael local logs'})
export type LocalLogsResult = ResultOf<typeof localLogsResult>

export const localStatusResult = z
  .union([
    strictObject({
      running: z.literal(true),
      ...localStackSchema.shape,
      uptimeMs: z.number(),
      enginePid: z.int(),
      engineRestarts: z.int(),
      aggregator: localAggregatorSchema.nullable().describe('Null: the stack runs without an aggregator'),
      table: strictObject({
        name: z.string(),
        status: z.string(),
        items: z.int(),
      }).nullable(),
      home: z.string(),
    }),
    strictObject({
      running: z.literal(false),
      problem: textOrNull.describe('Why the stack stopped unexpectedly; null: it was stopped on request'),
      lastEnd: strictObject({
        endedAt: z.string(),
        port: z.int(),
        reason: textOrNull.describe('Null: it was stopped on request'),
      }).nullable(),
      home: z.string(),
    }),
  ])
  .meta({title: 'zael local status'})
export type LocalStatusResult = ResultOf<typeof localStatusResult>

export const localUpResult = strictObject({
  started: z.boolean().describe('False: it was already running'),
  mended: z.boolean().describe('The previous run did not stop cleanly'),
  ...localStackSchema.shape,
  aggregator: z.boolean(),
}).meta({title: 'zael local up'})
export type LocalUpResult = ResultOf<typeof localUpResult>

const stackPartSchema = z
  .enum(['cloudFormation', 'table', 'aggregator', 'mapping', 'traffic', 'deadLetters', 'alarms', 'versions', 'drift'])
  .meta({id: 'StackPart'})

const stackResourceSchema = strictObject({logicalId: z.string(), physicalId: textOrNull, type: z.string()}).meta({
  id: 'StackResource',
})

const fixSchema = textOrNull.describe('Suggested command or change')

export const deleteResult = strictObject({
  stack: z.string(),
  region: textOrNull.describe('Null on a local engine'),
  dryRun: z.boolean(),
  status: textOrNull.describe(
    'Status of the stack before; null if only a table or an archive is left, or on a local engine',
  ),
  goes: z.array(stackResourceSchema).describe('Resources that CloudFormation deletes'),
  stays: z.array(stackResourceSchema).describe('Resources that CloudFormation keeps'),
  table: strictObject({
    name: z.string(),
    items: count.describe('DynamoDB count, updated every few hours'),
    isProtected: z.boolean(),
    delete: z.boolean().describe('--delete-table was given'),
  }).nullable(),
  archive: strictObject({
    bucket: z.string(),
    delete: z.boolean().describe('--empty-archive was given'),
  })
    .nullable()
    .describe('Bucket of archived audit events, of this stack or an earlier stack with this name; null: not found'),
  result: strictObject({
    stackDeleted: z.boolean(),
    tableDeleted: z.boolean(),
    tableLeft: z.boolean().describe('Whether a table with this name still exists'),
    archivedObjectsDeleted: count.nullable().describe('Null: the archive was kept'),
  })
    .nullable()
    .describe('Null with --dry-run'),
}).meta({title: 'zael delete'})
export type DeleteResult = ResultOf<typeof deleteResult>

export const deployResult = strictObject({
  stack: z.string(),
  region: textOrNull.describe('Null if no region was contacted'),
  target: z
    .enum(['cloudformation', 'engine', 'files'])
    .describe('engine: created only the table, on a local engine; files: --export or --export-policy wrote files'),
  dryRun: z.boolean(),
  action: z
    .enum(['create', 'update', 'none', 'recreate'])
    .describe('recreate: leftovers of a failed first deployment must be deleted first; only with --dry-run'),
  complete: z.boolean().describe('The deployment is complete; false with --dry-run and --no-wait'),
  parameters: listOf({
    option: z.string(),
    before: z.string(),
    after: z.string(),
  }).describe('Changed options, with the values of the template; an empty string: not set'),
  cloudFormationRole: textOrNull.describe(
    'ARN of the role CloudFormation assumes; null: it uses the permissions of the caller',
  ),
  terminationProtection: z.boolean().nullable().describe('New termination protection of the stack; null: unchanged'),
  adopts: strictObject({
    table: z.string(),
    items: count.describe('DynamoDB count, updated every few hours'),
    formerArchive: textOrNull.describe(
      'Bucket of audit events of an earlier stack with this name, which is kept; null: none known',
    ),
  })
    .nullable()
    .describe('Existing table without a stack that the new stack adopts with its data; null: none'),
  repairs: z.boolean().describe('Reverts changes and deletions made outside CloudFormation'),
  changes: listOf({
    action: z
      .enum(['add', 'import', 'restore', 'change', 'sync', 'replace', 'maybe-replace', 'remove', 'keep'])
      .describe(
        'import: exists and is adopted; restore: was deleted and is recreated; ' +
          'sync: already matches the template; keep: leaves the stack and stays on AWS.',
      ),
    logicalId: z.string().describe('Name in the template'),
    physicalId: textOrNull.describe('Name on AWS; null before it is created'),
    type: z.string(),
    properties: listOf({
      name: z.string(),
      before: textOrNull,
      after: textOrNull,
    }),
  }),
  code: z
    .enum(['new', 'current', 'none'])
    .describe('Whether the aggregator needs new code, as known before the stack changes'),
  aggregator: strictObject({
    functionName: z.string(),
    codeSha256: z.string().describe('In base64, as reported by Lambda'),
    codeUpdated: z.boolean(),
    eventSource: textOrNull.describe('Enabled, unless disabled manually; null: no event source'),
  })
    .nullable()
    .describe('Null without an aggregator, and until the deployment is complete'),
  schemaVersion: textOrNull.describe('Layout of the table'),
  defaultNamespaceCreated: z.boolean(),
  files: listOf({
    path: z.string(),
    bytes: count,
    purpose: z.string(),
  }).describe('Files that --export or --export-policy wrote'),
}).meta({title: 'zael deploy'})
export type DeployResult = ResultOf<typeof deployResult>

export const doctorResult = strictObject({
  fit: z.boolean().describe('No check failed'),
  checks: listOf({
    group: z.enum(['machine', 'account', 'stack']),
    name: z.string(),
    state: z.enum(['ok', 'warn', 'fail']),
    message: z.string(),
    fix: fixSchema,
  }),
}).meta({title: 'zael doctor'})
export type DoctorResult = ResultOf<typeof doctorResult>

export const listResult = strictObject({
  stacks: listOf({
    name: z.string(),
    region: textOrNull.describe('Null: a table of a local engine'),
    tool: z.enum(['zael', 'zae-limiter']).nullable().describe('Tool that deployed the stack; null: unknown'),
    status: z.string(),
    version: textOrNull,
    schemaVersion: textOrNull,
    createdAt: textOrNull.describe('UTC, ISO 8601'),
    updatedAt: textOrNull.describe('UTC, ISO 8601'),
  }),
  refused: listOf({
    region: z.string(),
    code: z.string(),
    reason: z.string(),
  }).describe('Regions that denied access'),
  notEnabled: z.array(z.string()).describe('Regions that the account has not enabled'),
  next: z.null().describe('The list is complete'),
}).meta({title: 'zael list'})
export type ListResult = ResultOf<typeof listResult>

export const statusResult = strictObject({
  stack: z.string(),
  region: textOrNull.describe('Null: a local engine'),
  healthy: z
    .boolean()
    .nullable()
    .describe('False: a problem was found; null: no problem was found, but some parts could not be read (see unknown)'),
  cloudFormation: strictObject({
    status: z.string(),
    statusReason: textOrNull,
    role: textOrNull.describe('ARN of the role CloudFormation assumes; null: it uses the permissions of the caller'),
    terminationProtection: z.boolean().describe('Whether the stack is protected against deletion'),
    owner: z.enum(['zael', 'zae-limiter', 'other']).describe('Tool that deployed the stack, by its tags'),
    version: textOrNull.describe('Version of the tool at the last deployment'),
    schemaVersion: textOrNull,
    createdAt: textOrNull.describe('UTC, ISO 8601'),
    updatedAt: textOrNull.describe('UTC, ISO 8601'),
    parameters: strictObject({
      chosen: listOf({
        name: z.string(),
        value: z.string(),
        default: textOrNull,
      }).describe("Values that differ from the default of this package's template"),
      missing: z.array(z.string()).describe('Parameters of the template that the stack does not have'),
      unknown: z.array(z.string()).describe('Parameters of the stack that the template does not have'),
    }),
    outputs: z.record(z.string(), z.string()).describe('Outputs of the CloudFormation stack'),
  }).nullable(),
  table: strictObject({
    status: z.string(),
    items: z.int(),
    bytes: z.int(),
    createdAt: textOrNull.describe('UTC, ISO 8601'),
    stream: textOrNull.describe('View type of the stream; null without a stream'),
    streamArn: textOrNull,
    expiry: z.boolean().nullable().describe('Null: could not be read'),
    pointInTimeRecovery: z.boolean().nullable().describe('Null: could not be read'),
    deletionProtection: z.boolean(),
    throughput: strictObject({
      maxReads: z.int().nullable().describe('Null: no maximum'),
      maxWrites: z.int().nullable().describe('Null: no maximum'),
      warmReads: z.int().nullable().describe('Warm throughput; null: not reported'),
      warmWrites: z.int().nullable().describe('Warm throughput; null: not reported'),
    }).describe('Units per second'),
    replicas: z.array(z.string()).describe('Regions that DynamoDB copies the table to'),
    indexes: listOf({
      name: z.string(),
      status: z.string(),
      projection: z.string(),
    }),
  }).nullable(),
  aggregator: strictObject({
    name: z.string(),
    state: z.string(),
    runtime: textOrNull,
    memoryMb: z.int().nullable(),
    codeBytes: z.int(),
    codeSha256: textOrNull.describe('Hash of the deployed package, in base64'),
    version: textOrNull,
    ownCode: z
      .boolean()
      .nullable()
      .describe('Whether it runs the code of this zael version; null for the function of another tool'),
  }).nullable(),
  mapping: strictObject({
    id: z.string(),
    state: z.string(),
    stateReason: textOrNull,
    lastResult: textOrNull,
    filters: z.array(z.string()),
    failureDestination: textOrNull,
  }).nullable(),
  traffic: strictObject({
    throttledReads: z.number(),
    throttledWrites: z.number(),
    aggregatorErrors: z.number(),
    uncountedRecords: z.number().describe('Stream records that could not be counted'),
    refusedRequests: z.number().describe('Requests refused by zael limiters'),
    iteratorAgeMs: z.number().nullable().describe('Age of the last record when the function received it'),
  })
    .nullable()
    .describe('Figures of the last hour'),
  deadLetters: strictObject({
    queue: z.string(),
    messages: z.int(),
  }).nullable(),
  alarms: listOf({
    name: z.string(),
    state: z.string(),
    reason: textOrNull,
    notifies: z.boolean().describe('Whether the alarm has actions and they are enabled'),
  }).nullable(),
  versions: strictObject({
    schemaVersion: textOrNull,
    lambdaVersion: textOrNull,
    clientMinVersion: textOrNull.describe('Oldest zae-limiter release that may use the table'),
    release: textOrNull.describe(
      'A zae-limiter release whose records are in the table; `migrate status` lists all releases',
    ),
    updatedBy: textOrNull,
    problem: strictObject({
      message: z.string(),
      fix: fixSchema,
    })
      .nullable()
      .describe('Why this zael version must not use the table'),
    migrationDue: z.boolean(),
  }).nullable(),
  drift: listOf({
    logicalId: z.string().describe('Name in the template'),
    physicalId: textOrNull,
    type: z.string(),
    change: z.enum(['modified', 'deleted']),
    properties: listOf({
      path: z.string(),
      expected: textOrNull.describe('Value in the template'),
      actual: textOrNull,
    }),
  })
    .nullable()
    .describe('With --drift: resources changed or deleted outside CloudFormation; null without --drift'),
  unknown: listOf({
    part: stackPartSchema,
    code: z.string(),
    reason: z.string(),
    fix: fixSchema,
  }).describe('Parts that could not be read; they are null'),
  findings: listOf({
    severity: z.enum(['problem', 'note']),
    part: stackPartSchema,
    message: z.string(),
    fix: fixSchema,
  }).describe('Problems first; notes do not degrade a stack'),
  local: strictObject({
    endpoint: z.string(),
    engine: z.string(),
    uptimeMs: z.number(),
    engineRestarts: z.int(),
    aggregator: localAggregatorSchema.nullable(),
  })
    .nullable()
    .describe('The supervisor of the local stack'),
}).meta({title: 'zael status'})
export type StatusResult = ResultOf<typeof statusResult>
