import {strictObject, z} from 'zod'
import {count, listOf, type ResultOf, textOrNull} from '../output/results.js'

const engineKindSchema = z.enum(['dynoxide', 'dynamodb-local', 'docker']).meta({id: 'EngineKind'})

const localStackSchema = strictObject({
  stack: z.literal('local'),
  pid: z.int().describe('Process of the supervisor.'),
  engine: engineKindSchema,
  engineVersion: z.string(),
  endpoint: z.string(),
  port: z.int(),
  dataDir: textOrNull.describe('null: everything is in memory.'),
  startedAt: z.string().describe('ISO 8601, UTC.'),
  version: z.string().describe('Of the zael that started it.'),
})

export const localAggregatorSchema = strictObject({
  records: z.int(),
  batches: z.int(),
  snapshots: z.int(),
  refused: z.int().describe('Requests that limiters of zael refused.'),
  refills: z.int(),
  splits: z.int(),
  archived: z.int(),
  errors: z.int(),
  lastError: textOrNull,
  lagMs: z.number(),
  streamLength: z.int().nullable().describe('null before the first look, and while records wait to be read.'),
}).meta({id: 'LocalAggregator'})

export const localDownResult = strictObject({
  stopped: z.boolean(),
  endpoint: textOrNull.describe('Where it was; null: it was not running.'),
  purged: textOrNull.describe('Folder that was deleted.'),
}).meta({title: 'zael local down'})
export type LocalDownResult = ResultOf<typeof localDownResult>

export const localEnvResult = strictObject({
  variables: z.record(z.string(), z.string()),
  unset: z.array(z.string()).describe('With --unset: variables of the shell to remove.'),
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
      aggregator: localAggregatorSchema.nullable().describe('null: the stack runs without.'),
      table: strictObject({
        name: z.string(),
        status: z.string(),
        items: z.int(),
      }).nullable(),
      home: z.string(),
    }),
    strictObject({
      running: z.literal(false),
      problem: textOrNull.describe('Why it does not run, when it should.'),
      lastEnd: strictObject({
        endedAt: z.string(),
        port: z.int(),
        reason: textOrNull.describe('null: it was asked to.'),
      }).nullable(),
      home: z.string(),
    }),
  ])
  .meta({title: 'zael local status'})
export type LocalStatusResult = ResultOf<typeof localStatusResult>

export const localUpResult = strictObject({
  started: z.boolean().describe('false: it was up already.'),
  mended: z.boolean().describe('The one before had not ended as it should.'),
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

const fixSchema = textOrNull.describe('The next command, or what to change')

export const deleteResult = strictObject({
  stack: z.string(),
  region: textOrNull.describe('Null on a local engine.'),
  dryRun: z.boolean(),
  status: textOrNull.describe(
    'Of the stack before; null where only a table or an archive is left, and on a local engine.',
  ),
  goes: z.array(stackResourceSchema).describe('Resources that CloudFormation deletes.'),
  stays: z.array(stackResourceSchema).describe('Resources that the template tells CloudFormation to keep.'),
  table: strictObject({
    name: z.string(),
    items: count.describe('As DynamoDB counts them, some hours late.'),
    isProtected: z.boolean(),
    delete: z.boolean().describe('--delete-table was given.'),
  }).nullable(),
  archive: strictObject({
    bucket: z.string(),
    delete: z.boolean().describe('--empty-archive was given.'),
  })
    .nullable()
    .describe(
      'The bucket of archived audit events, of the stack or of the last one of its name; null: none was found.',
    ),
  result: strictObject({
    stackDeleted: z.boolean(),
    tableDeleted: z.boolean(),
    tableLeft: z.boolean().describe('Whether there is a table of that name now.'),
    archivedObjectsDeleted: count.nullable().describe('Null: the archive was left alone.'),
  })
    .nullable()
    .describe('Null with --dry-run.'),
}).meta({title: 'zael delete'})
export type DeleteResult = ResultOf<typeof deleteResult>

export const deployResult = strictObject({
  stack: z.string(),
  region: textOrNull.describe('Null where no region is asked.'),
  target: z
    .enum(['cloudformation', 'engine', 'files'])
    .describe(
      'engine: a local DynamoDB engine, on which only the table is made; files: nothing is deployed, --export or --export-policy wrote files.',
    ),
  dryRun: z.boolean(),
  action: z
    .enum(['create', 'update', 'none', 'recreate'])
    .describe('recreate: what a failed first deployment left has to go first; only with --dry-run.'),
  complete: z.boolean().describe('Everything is in place; false with --dry-run and --no-wait.'),
  parameters: listOf({
    option: z.string(),
    before: z.string(),
    after: z.string(),
  }).describe('Options that change, as the template spells their values; an empty text is not set.'),
  cloudFormationRole: textOrNull.describe(
    'ARN of the service role of CloudFormation; null: it acts with the permissions of its caller.',
  ),
  terminationProtection: z
    .boolean()
    .nullable()
    .describe('What the protection of the stack against deletion is changed to; null: it stays as it is.'),
  adopts: strictObject({
    table: z.string(),
    items: count.describe('As DynamoDB counts them, some hours late.'),
    formerArchive: textOrNull.describe(
      'Bucket of audit events of an earlier stack of this name, which stays; null: none is known.',
    ),
  })
    .nullable()
    .describe('A table without a stack that becomes part of the new one, with everything in it; null: none.'),
  repairs: z
    .boolean()
    .describe('Compared with what exists: what was changed or deleted without CloudFormation is set back.'),
  changes: listOf({
    action: z
      .enum(['add', 'import', 'restore', 'change', 'sync', 'replace', 'maybe-replace', 'remove', 'keep'])
      .describe(
        'import: it exists and becomes part of the stack; restore: it is gone and is created again; ' +
          'sync: it is already as the template has it; keep: it leaves the stack and stays on AWS.',
      ),
    logicalId: z.string().describe('Its name in the template.'),
    physicalId: textOrNull.describe('Its name on AWS; null before it is made.'),
    type: z.string(),
    properties: listOf({
      name: z.string(),
      before: textOrNull,
      after: textOrNull,
    }),
  }),
  code: z
    .enum(['new', 'current', 'none'])
    .describe('Whether the aggregator needed other code, as far as was known before the stack changed.'),
  aggregator: strictObject({
    functionName: z.string(),
    codeSha256: z.string().describe('In base64, as Lambda tells it.'),
    codeUpdated: z.boolean(),
    eventSource: textOrNull.describe('Enabled, unless it was disabled by hand; null if there is none.'),
  })
    .nullable()
    .describe('Null without an aggregator, and until everything is in place.'),
  schemaVersion: textOrNull.describe('Layout of the table.'),
  defaultNamespaceCreated: z.boolean(),
  files: listOf({
    path: z.string(),
    bytes: count,
    purpose: z.string(),
  }).describe('What --export or --export-policy wrote.'),
  warnings: z.array(z.string()).optional(),
}).meta({title: 'zael deploy'})
export type DeployResult = ResultOf<typeof deployResult>

export const doctorResult = strictObject({
  fit: z.boolean().describe('Nothing failed'),
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
    region: textOrNull.describe('null: a table of a local engine'),
    tool: z.enum(['zael', 'zae-limiter']).nullable().describe('Which tool deployed it; null: unknown'),
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
  }).describe('Regions that could not be asked'),
  notEnabled: z.array(z.string()).describe('Regions that the account has not asked for'),
  next: z.null().describe('The list is complete'),
  warnings: z
    .array(z.string())
    .describe('The refused regions once more, in words; only where there are any')
    .optional(),
}).meta({title: 'zael list'})
export type ListResult = ResultOf<typeof listResult>

export const statusResult = strictObject({
  stack: z.string(),
  region: textOrNull.describe('null: a local engine'),
  healthy: z
    .boolean()
    .nullable()
    .describe('false: something is wrong; null: no problem was found, but unknown names parts that could not be read'),
  cloudFormation: strictObject({
    status: z.string(),
    statusReason: textOrNull,
    role: textOrNull.describe(
      'ARN of the service role of CloudFormation; null: it acts with the permissions of its caller',
    ),
    terminationProtection: z.boolean().describe('Whether CloudFormation refuses to delete the stack'),
    owner: z.enum(['zael', 'zae-limiter', 'other']).describe('Who deployed it, by its tags'),
    version: textOrNull.describe('Of the tool, at the last deploy'),
    schemaVersion: textOrNull,
    createdAt: textOrNull.describe('UTC, ISO 8601'),
    updatedAt: textOrNull.describe('UTC, ISO 8601'),
    parameters: strictObject({
      chosen: listOf({
        name: z.string(),
        value: z.string(),
        default: textOrNull,
      }).describe("Values that are not the default of this package's template"),
      missing: z.array(z.string()).describe('Parameters of the template that the stack does not have'),
      unknown: z.array(z.string()).describe('Parameters of the stack that the template does not have'),
    }),
    outputs: z.record(z.string(), z.string()).describe('Names, ARNs and addresses that the stack hands out'),
  }).nullable(),
  table: strictObject({
    status: z.string(),
    items: z.int(),
    bytes: z.int(),
    createdAt: textOrNull.describe('UTC, ISO 8601'),
    stream: textOrNull.describe('View type of the stream; null without a stream'),
    streamArn: textOrNull,
    expiry: z.boolean().nullable().describe('null: could not be asked'),
    pointInTimeRecovery: z.boolean().nullable().describe('null: could not be asked'),
    deletionProtection: z.boolean(),
    throughput: strictObject({
      maxReads: z.int().nullable().describe('null: no maximum'),
      maxWrites: z.int().nullable().describe('null: no maximum'),
      warmReads: z.int().nullable().describe('What the table can serve at once; null: not reported'),
      warmWrites: z.int().nullable().describe('What the table can serve at once; null: not reported'),
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
    codeSha256: textOrNull.describe('Of the deployed package, in base64'),
    version: textOrNull,
    ownCode: z
      .boolean()
      .nullable()
      .describe('Whether it runs the package in this zael; null for the function of another tool'),
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
    uncountedRecords: z.number().describe('Stream records whose usage could not be counted'),
    refusedRequests: z.number().describe('Requests that limiters of zael refused'),
    iteratorAgeMs: z.number().nullable().describe('How old the last record was when the function got it'),
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
    clientMinVersion: textOrNull.describe('The oldest release of zae-limiter that may be used with the table'),
    release: textOrNull.describe(
      'Release of zae-limiter whose records the table has at least; `migrate status` looks at all of them',
    ),
    updatedBy: textOrNull,
    problem: strictObject({
      message: z.string(),
      fix: fixSchema,
    })
      .nullable()
      .describe('Why this zael must not work on the table'),
    migrationDue: z.boolean(),
  }).nullable(),
  drift: listOf({
    logicalId: z.string().describe('Its name in the template'),
    physicalId: textOrNull,
    type: z.string(),
    change: z.enum(['modified', 'deleted']),
    properties: listOf({
      path: z.string(),
      expected: textOrNull.describe('As the template has it'),
      actual: textOrNull,
    }),
  })
    .nullable()
    .describe('With --drift: what was changed or deleted without CloudFormation; null without it'),
  unknown: listOf({
    part: stackPartSchema,
    code: z.string(),
    reason: z.string(),
    fix: fixSchema,
  }).describe('Parts that could not be looked at; they are null because of that'),
  findings: listOf({
    severity: z.enum(['problem', 'note']),
    part: stackPartSchema,
    message: z.string(),
    fix: fixSchema,
  }).describe('Problems first; a note does not make a stack degraded'),
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
