/** A room of `src`: a folder of `src/lib`, the commands, or a file of its own. */
export interface Room {
  /** Its contents, for CONTRIBUTING.md. */
  readonly holds: string
  /** Rooms this one may import from, besides itself. */
  readonly rooms: readonly string[]
  /** Packages it may import; a `*` at the end stands for anything. */
  readonly packages: readonly string[]
}

const GROUND = ['core', 'schema', 'dynamo', 'repository']
const MIDDLE = ['files', 'limiter', 'aggregator', 'manifest', 'migrate', 'infra', 'insight', 'local']

/** Allowed imports, from the ground up. A new room or package needs a row here. No room imports `index`. */
export const ROOMS: Readonly<Record<string, Room>> = {
  core: {
    holds:
      '`limits/` and their notation, the `calendar/` of schedules, `buckets/` (arithmetic, shards), `text/`, errors; pure: no clock, no I/O',
    rooms: [],
    packages: [],
  },
  files: {
    holds: 'reading files that people write, with size limits and error positions; files of this package; folders',
    rooms: ['core'],
    packages: ['node:*', 'yaml', 'zod'],
  },
  schema: {
    holds: 'a codec for every record of the table; only this room and `migrate/layouts/` name attributes',
    rooms: ['core'],
    packages: ['node:crypto'], // pure too: it only hashes
  },
  dynamo: {
    holds: "the interface to DynamoDB and its errors, the table's definition; `transports/`: lean, SDK, streams",
    rooms: ['core', 'schema', 'files'],
    packages: ['node:*', '@aws-sdk/*'],
  },
  repository: {
    holds: 'stored data by subject: `table/` `buckets/` `limits/` `entities/` `namespaces/` `operations/` `usage/`',
    rooms: ['core', 'schema', 'dynamo'],
    packages: ['node:*'],
  },
  limiter: {
    holds:
      'acquire, leases and runs; `request/` (options), `queue/` (writes to one item), `levels/` (shards, parents, resources), `refusal/`, `holders/` (slots)',
    rooms: GROUND,
    packages: ['node:*'],
  },
  adapters: {
    holds:
      '`zael/hono`, `zael/express`, `zael/fastify`, `zael/fetch`, `zael/ai-sdk`, `zael/prices` on one core (`guard.ts`); `otel/` is `zael/otel`',
    rooms: ['core', 'schema', 'dynamo', 'limiter'], // frameworks are known by the shape of their types only
    packages: ['node:*', '@opentelemetry/api'],
  },
  aggregator: {
    holds: "the Lambda function (`handler.ts`): usage from the table's stream, `rollup/`, upkeep, archive, replay",
    rooms: GROUND, // plain zod is too large for the Lambda bundle
    packages: ['node:*', 'zod/mini', '@aws-sdk/client-s3'],
  },
  manifest: {
    holds: 'limits and entities as a file: plan, apply, diff, export',
    rooms: [...GROUND, 'files'],
    packages: ['node:*', 'yaml', 'zod'],
  },
  migrate: {
    holds: 'older layouts: `layouts/` `records/` `buckets/` `usage/` `limitless/` `walk/`',
    rooms: GROUND,
    packages: ['node:*', 'zod'],
  },
  infra: {
    holds:
      'stacks on AWS: `aws/` `stack/` `permissions/` `deploy/` (with adopt and delete) `health/` `doctor/` `dead-letters/`',
    rooms: [...GROUND, 'files', 'aggregator'], // deploys the aggregator, and redrives its dead letters
    packages: ['node:*', '@aws-sdk/*', 'yaml', 'zod', 'zod/mini'],
  },
  insight: {
    holds: 'answers for operators: `why/` `usage/` `lookup/` `holders/` `preview/` `verify/` `cost/`',
    rooms: [...GROUND, 'files', 'limiter', 'infra'],
    packages: ['node:*', 'zod'],
  },
  local: {
    holds: 'the stack on this machine: `engines/` `state-dir/` `stream/` `supervisor/`; `testing/` is `zael/testing`',
    rooms: [...GROUND, 'files', 'limiter', 'aggregator'], // runs the aggregator on the local stream
    packages: ['node:*', 'zod', 'zod/mini'],
  },
  cli: {
    holds:
      'shared parts of commands: `base/` `output/` `flags/` `help/` `completion/`; one folder per topic for its presenters and results',
    rooms: [...GROUND, ...MIDDLE],
    packages: ['node:*', '@oclif/*', 'cli-table3', 'yaml', 'zod'],
  },
  live: {
    holds: '`zael watch`: `poll/` `model/` `state/` `screen/` `actions/` `metrics/`; the only room that uses Ink',
    rooms: [...GROUND, 'infra', 'insight', 'cli'],
    packages: ['node:*', 'ink', 'react', 'react/*', '@oclif/core/flags', 'zod'],
  },
  results: {
    holds: '`results.ts`: the JSON results of all commands, for `dist/schemas.json`',
    rooms: ['cli', 'live'],
    packages: ['zod'],
  },
  index: {
    holds: '`index.ts`: the public library; exports marked `@internal` are not in its types',
    rooms: [...GROUND, ...MIDDLE],
    packages: [],
  },
  commands: {
    holds: '`src/commands`: one file per command',
    rooms: [...GROUND, ...MIDDLE, 'cli', 'live'],
    packages: ['node:*', '@oclif/*'],
  },
}

/** Packages that only part of a room may import. */
export const ONLY_IN: readonly {readonly room: string; readonly packages: RegExp; readonly path: string}[] = [
  {room: 'adapters', packages: /^@opentelemetry\//, path: 'src/lib/adapters/otel/'},
  {room: 'aggregator', packages: /^@aws-sdk\//, path: 'src/lib/aggregator/s3-archive-sink.ts'},
  {room: 'live', packages: /^(?:ink|react)(?:\/|$)/, path: 'src/lib/live/screen/'},
  {room: 'live', packages: /^@oclif\//, path: 'src/lib/live/flags.ts'},
]

/**
 * Allowed imports inside a room with subfolders, from the ground up; `.` is the room itself. A new folder needs a row
 * here.
 */
export const INSIDE: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  core: {
    '.': [],
    text: ['.'],
    limits: ['.', 'text'],
    buckets: ['.', 'limits'],
    calendar: ['.', 'text', 'limits'],
  },
  dynamo: {'.': [], transports: ['.']},
  repository: {
    table: [],
    buckets: ['table'],
    namespaces: ['table'],
    usage: ['table'],
    limits: ['table', 'buckets'], // and how they get into buckets
    entities: ['table', 'limits'],
    operations: ['table', 'buckets', 'limits'], // resets and top-ups
    runs: ['table', 'buckets'],
    '.': ['table', 'buckets', 'namespaces', 'usage', 'limits', 'entities', 'operations'],
  },
  limiter: {
    refusal: [],
    holders: [], // slots of in-flight limits, and the processes that hold them
    request: ['refusal', 'holders'],
    queue: ['refusal', 'holders', 'request'], // one item
    levels: ['refusal', 'holders', 'request', 'queue'], // the items of a request: shards, parents, several resources
    '.': ['refusal', 'holders', 'request', 'levels'],
  },
  adapters: {'.': [], otel: []},
  aggregator: {rollup: [], '.': ['rollup']},
  migrate: {
    layouts: [],
    records: ['layouts'],
    buckets: ['layouts', 'records'],
    usage: ['records'],
    limitless: ['records', 'buckets'],
    walk: ['records', 'buckets', 'usage', 'limitless'],
    '.': ['layouts', 'records', 'limitless', 'walk'],
  },
  infra: {
    aws: [],
    stack: ['aws'],
    permissions: ['stack'],
    deploy: ['aws', 'stack', 'permissions'],
    health: ['aws', 'stack'],
    doctor: ['aws', 'stack', 'permissions', 'health'],
    'dead-letters': ['aws', 'stack'],
  },
  insight: {
    holders: [], // of slots
    lookup: ['holders'],
    usage: ['lookup'],
    why: ['holders', 'lookup', 'usage'],
    preview: ['lookup', 'usage'],
    cost: ['usage'],
    verify: ['holders'],
  },
  local: {
    engines: [],
    'state-dir': ['engines'],
    stream: [],
    supervisor: ['engines', 'state-dir', 'stream'],
    testing: ['engines'],
    '.': ['engines', 'state-dir', 'supervisor'],
  },
  cli: {
    output: [],
    base: ['output'],
    flags: ['output'],
    help: ['base', 'output'],
    completion: ['base'],
    aggregator: ['output'],
    cost: ['output'],
    holders: ['output'],
    run: ['output'],
    limits: ['base', 'output'],
    namespace: ['output'],
    stack: ['base', 'output'],
    usage: ['output', 'flags'],
    verify: ['output'],
    acquire: ['base', 'output', 'holders', 'limits', 'usage'],
    bucket: ['output', 'holders', 'usage'],
    entity: ['base', 'output', 'limits'],
    migrate: ['output', 'limits'],
  },
  live: {
    model: [],
    poll: ['model'],
    state: ['model'],
    screen: ['model', 'state'],
    actions: ['state'],
    '.': ['model', 'poll', 'state', 'screen', 'actions'],
    metrics: ['.', 'model', 'poll'],
  },
}

/** The table of rooms in CONTRIBUTING.md. */
export function roomTable(): string {
  const importable = (rooms: readonly string[]): string => {
    const others = rooms.filter(room => !GROUND.includes(room))
    const list = GROUND.every(room => rooms.includes(room)) ? ['the ground', ...others] : rooms
    return list.join(', ') || '–'
  }
  const rows = Object.entries(ROOMS).map(
    ([name, {holds, rooms}]) => `| \`${name}\` | ${holds} | ${importable(rooms)} |`,
  )
  return ['| room | contents | may import |', '|---|---|---|', ...rows].join('\n')
}
