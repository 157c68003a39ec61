import {posix} from 'node:path'
import {describe, expect, it} from 'vitest'
import {type ImportLine, importCycles, importLines, type SourceFile} from './helpers/import-lines.js'
import {readSources} from './helpers/sources.js'

interface Rule {
  /** Rooms this one may import from, besides itself. */
  readonly rooms: readonly string[]
  /** Packages it may import; a `*` at the end stands for anything. */
  readonly packages: readonly string[]
}

const GROUND = ['core', 'calendar', 'schema', 'dynamo', 'repository']
const MIDDLE = [
  'limiter',
  'inspect',
  'verify',
  'aggregator',
  'documents',
  'manifest',
  'migrations',
  'infra',
  'cost',
  'local',
  'watch',
  'ui',
]

/** Who may import whom. A new room or package enters the house through this table; no row lists `index`. */
const RULES: Readonly<Record<string, Rule>> = {
  core: {rooms: [], packages: []},
  calendar: {rooms: ['core'], packages: []}, // when windows are open and quotas reset: pure, as core is
  schema: {rooms: ['core', 'calendar'], packages: ['node:fs', 'node:fs/promises', 'node:module', 'node:url', 'yaml']},
  dynamo: {rooms: ['core', 'schema'], packages: ['node:*', '@aws-sdk/*']},
  repository: {rooms: ['core', 'calendar', 'schema', 'dynamo'], packages: ['node:*']},

  files: {rooms: [], packages: ['node:*']}, // folders that people name

  limiter: {rooms: GROUND, packages: ['node:*']},
  inspect: {rooms: [...GROUND, 'limiter'], packages: ['node:*']}, // what operators ask: why, overviews, reports, searches
  verify: {rooms: GROUND, packages: []}, // compares stored records with each other
  aggregator: {rooms: GROUND, packages: ['node:*', 'zod/mini']}, // part of the Lambda bundle, where plain zod is too large
  documents: {rooms: ['core'], packages: ['node:*', 'yaml', 'zod']}, // files that people write: text, positions, problems
  manifest: {rooms: [...GROUND, 'documents'], packages: ['node:*', 'yaml', 'zod']},
  migrations: {rooms: GROUND, packages: ['node:*', 'zod']},
  infra: {rooms: [...GROUND, 'files', 'aggregator'], packages: ['node:*', '@aws-sdk/*', 'yaml', 'zod', 'zod/mini']}, // makes a Lambda of the aggregator
  cost: {rooms: [...GROUND, 'inspect', 'documents', 'infra'], packages: ['zod']}, // counters and metrics times prices
  local: {rooms: [...GROUND, 'files', 'aggregator'], packages: ['node:*', 'zod']}, // runs the aggregator on the local table's stream
  watch: {rooms: GROUND, packages: ['node:*']}, // what the live view knows, without drawing it
  ui: {rooms: [...GROUND, 'watch'], packages: ['node:*', 'ink', 'react', 'react/*']},

  adapters: {rooms: ['core', 'dynamo', 'schema', 'limiter'], packages: []}, // frameworks are known by the shape of their types only
  otel: {rooms: ['limiter'], packages: ['@opentelemetry/api']}, // the only room that knows OpenTelemetry
  testing: {rooms: [...GROUND, 'limiter', 'local'], packages: ['node:*']}, // for tests of programs that use zael

  index: {rooms: [...GROUND, ...MIDDLE.filter(room => room !== 'ui')], packages: []},
  cli: {rooms: [...GROUND, ...MIDDLE], packages: ['node:*', '@oclif/*', 'cli-table3', 'yaml', 'zod']},
  commands: {rooms: [...GROUND, ...MIDDLE, 'cli'], packages: ['node:*', '@oclif/*']},
}

/**
 * Who may import whom inside a room that has rooms of its own, from the ground up; `.` is the room itself. A new folder
 * enters the house through this table.
 */
const INSIDE: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  core: {notation: [], '.': ['notation'], syntax: ['.', 'notation']},
  schema: {template: [], '.': ['template'], legacy: ['.'], migration: ['.']},
  dynamo: {'.': [], transports: ['.']},
  repository: {
    table: [],
    audit: ['table'],
    buckets: ['table', 'audit'],
    provisioner: ['table'],
    limits: ['table', 'audit', 'provisioner'],
    namespaces: ['table'],
    usage: ['table'],
    sync: ['table', 'buckets', 'limits'],
    entities: ['table', 'audit', 'limits', 'sync'],
    operations: ['table', 'audit', 'buckets', 'limits'], // resets and top-ups
    '.': [
      'table',
      'audit',
      'buckets',
      'provisioner',
      'limits',
      'namespaces',
      'usage',
      'sync',
      'entities',
      'operations',
    ],
  },
  limiter: {
    refusals: [],
    clock: [],
    observation: [],
    settling: [],
    services: [], // what all queues of a namespace share
    '.': ['refusals', 'clock', 'observation', 'settling', 'services'],
  },
  aggregator: {'.': ['rollup'], rollup: [], 'local-stream': ['.']},
  migrations: {
    records: [],
    buckets: ['records'],
    usage: ['records'],
    limitless: ['records', 'buckets'],
    walk: ['records', 'buckets', 'usage', 'limitless'],
    '.': ['records', 'limitless', 'walk'],
  },
  infra: {
    aws: [],
    stacks: ['aws'],
    options: ['stacks'],
    permissions: ['stacks', 'options'],
    lambda: ['aws'],
    adopt: ['aws', 'stacks', 'options'],
    deploy: ['aws', 'stacks', 'options', 'permissions', 'lambda', 'adopt'],
    delete: ['aws', 'stacks', 'deploy'],
    'dead-letters': ['aws', 'lambda'],
    health: ['aws', 'stacks', 'options', 'lambda'],
    cost: ['aws', 'options'],
    doctor: ['aws', 'stacks', 'options', 'permissions', 'health'],
  },
  local: {
    engines: [],
    'state-dir': ['engines'],
    supervisor: ['engines', 'state-dir'],
    '.': ['engines', 'state-dir', 'supervisor'],
  },
  ui: {draw: [], model: ['draw'], panels: ['draw', 'model'], '.': ['draw', 'model', 'panels']},
  cli: {
    results: [],
    output: [],
    base: ['output', 'results'],
    flags: ['output'],
    help: ['base', 'results'],
    completion: ['base'],
    limits: ['base', 'output', 'results'],
    acquire: ['base', 'output', 'results', 'limits'],
    data: ['base', 'output', 'results', 'flags', 'limits'],
    migrate: ['output', 'results', 'limits'],
    stack: ['base', 'output', 'results'],
    verify: ['output', 'results'],
    watch: ['base', 'output', 'results', 'flags', 'stack', 'acquire', 'limits', 'data'],
  },
}

/** More files than this in one folder are a list to search in, not a room to find one's way in. */
const MOST_FILES_IN_A_FOLDER = 25

/** What a command may import without `await import()`: the rest would make every start of zael slower. */
const COMMANDS_STATIC: Rule = {rooms: ['cli'], packages: ['@oclif/*']}

/** Every breach of the house rules in the given source files, one line each. */
function violations(files: readonly SourceFile[]): string[] {
  const breaches = files.flatMap(file => {
    const room = roomOf(file.path)
    const rule = RULES[room]
    if (!rule) return [`${file.path} is in no room of the house`]
    return importLines(file).flatMap(line => {
      const what = line.target ?? line.specifier
      if (!isAllowed(room, rule, line)) return [`${file.path}: ${room} may not import ${what}`]
      if (!isAllowedInside(file.path, line)) return [`${file.path}: ${folderOf(file.path)} may not import ${what}`]
      if (loadsResults(file.path, line)) return [`${file.path}: ${what} must be imported as a type: it loads zod`]
      const mustWait =
        room === 'commands' &&
        line.kind === 'static' &&
        line.target !== 'src/lib/core/errors' &&
        !isAllowed(room, COMMANDS_STATIC, line)
      return mustWait ? [`${file.path}: ${what} must come by await import()`] : []
    })
  })
  return [
    ...breaches,
    ...importCycles(files).map(ring => `import cycle: ${ring}`),
    ...folderCycles(files).map(ring => `folder cycle: ${ring}`),
    ...crowdedFolders(files),
  ]
}

/** Whether an import within one room follows the arrows between its sub-rooms. */
function isAllowedInside(path: string, {target}: ImportLine): boolean {
  const room = roomOf(path)
  if (target === undefined || roomOf(target) !== room) return true
  const from = subRoomOf(path)
  const to = subRoomOf(target)
  return from === to || (INSIDE[room]?.[from]?.includes(to) ?? false)
}

/** Whether a file outside `cli/results` imports more than types from there. */
function loadsResults(path: string, {target, kind}: ImportLine): boolean {
  const folder = 'src/lib/cli/results'
  return kind !== 'type' && folderOf(path) !== folder && target !== undefined && folderOf(target) === folder
}

/** `src/lib/infra/deploy/plan.ts` → `deploy`, `src/lib/limiter/lease.ts` → `.`. */
function subRoomOf(path: string): string {
  return /^src\/lib\/[^/]+\/(.+)\/[^/]+$/.exec(path)?.[1] ?? '.'
}

const folderOf = (path: string): string => path.replace(/\/[^/]*$/, '')

/** Rings of folders whose files import one another. Each folder is treated as one file that imports what its files import. */
function folderCycles(files: readonly SourceFile[]): string[] {
  const imports = new Map<string, Set<string>>()
  for (const file of files) {
    const from = folderOf(file.path)
    const targets = imports.get(from) ?? new Set()
    for (const {target} of importLines(file)) {
      if (target !== undefined && folderOf(target) !== from) targets.add(folderOf(target))
    }
    imports.set(from, targets)
  }
  return importCycles(
    [...imports].map(([folder, targets]) => ({
      path: `${folder}/folder.ts`,
      text: [...targets].map(target => `import '${posix.relative(folder, target)}/folder.js'`).join('\n'),
    })),
  ).map(ring => ring.replaceAll('/folder', ''))
}

function crowdedFolders(files: readonly SourceFile[]): string[] {
  const counts = new Map<string, number>()
  for (const {path} of files) counts.set(folderOf(path), (counts.get(folderOf(path)) ?? 0) + 1)
  return [...counts]
    .filter(([, count]) => count > MOST_FILES_IN_A_FOLDER)
    .map(([folder, count]) => `${folder} has ${count} files, more than ${MOST_FILES_IN_A_FOLDER}`)
}

function isAllowed(room: string, rule: Rule, {specifier, target}: ImportLine): boolean {
  if (target !== undefined) return roomOf(target) === room || rule.rooms.includes(roomOf(target))
  return rule.packages.some(name => (name.endsWith('*') ? specifier.startsWith(name.slice(0, -1)) : specifier === name))
}

/** `src/lib/core/limit.ts` → `core`, `src/lib/cli/base/context.ts` → `cli`, `src/commands/help.ts` → `commands`. */
function roomOf(path: string): string {
  return /^src\/lib\/([^/.]+)/.exec(path)?.[1] ?? /^src\/(commands)\//.exec(path)?.[1] ?? path
}

function file(path: string, ...lines: string[]): SourceFile {
  return {path, text: lines.join('\n')}
}

describe('the source tree', () => {
  it('keeps the rules of the house', () => {
    const files = readSources()
    expect(files.length).toBeGreaterThan(0)
    expect(violations(files)).toEqual([])
  })
})

describe('the checker', () => {
  it.each([
    ['core', `import {readFileSync} from 'node:fs'`, 'core may not import node:fs'],
    ['core', `import {keys} from '../schema/keys.js'`, 'core may not import src/lib/schema/keys'],
    ['schema', `import type {AttributeValue} from '@aws-sdk/client-dynamodb'`, 'schema may not import @aws-sdk/'],
    ['dynamo', `import {Flags} from '@oclif/core'`, 'dynamo may not import @oclif/core'],
    ['repository', `import {acquire} from '../limiter/acquire.js'`, 'repository may not import src/lib/limiter'],
    ['limiter', `export {handler} from '../aggregator/handler.js'`, 'limiter may not import src/lib/aggregator'],
    ['local', `const {render} = await import('ink')`, 'local may not import ink'],
    [
      'limiter',
      `import {\n  RateLimiter,\n  type Lease,\n} from '../index.js'`,
      'limiter may not import src/lib/index',
    ],
    ['cli', `import '../../commands/help.js'`, 'cli may not import src/commands/help'],
    ['attic', '', 'is in no room of the house'],
  ])('refuses in %s: %s', (room, line, breach) => {
    expect(violations([file(`src/lib/${room}/file.ts`, line)])).toEqual([expect.stringContaining(breach)])
  })

  it.each([
    [`import {DynamoDBClient} from '@aws-sdk/client-dynamodb'`, 'commands may not import @aws-sdk/'],
    [`import type {AttributeValue} from '@aws-sdk/client-dynamodb'`, 'commands may not import @aws-sdk/'],
    [`await import('@aws-sdk/client-dynamodb')`, 'commands may not import @aws-sdk/'],
    [`import {acquire} from '../../lib/limiter/acquire.js'`, 'src/lib/limiter/acquire must come by await import()'],
    [`import {type Limit} from '../../lib/core/limit.js'`, 'src/lib/core/limit must come by await import()'],
  ])('refuses in a command: %s', (line, breach) => {
    expect(violations([file('src/commands/limits/set.ts', line)])).toEqual([expect.stringContaining(breach)])
  })

  it('accepts what a command needs', () => {
    const command = file(
      'src/commands/limits/set.ts',
      `import {Flags} from '@oclif/core'`,
      `import {BaseCommand} from '../../lib/cli/base/base-command.js'`,
      `import {InvalidInput} from '../../lib/core/errors.js'`,
      `import type {Limit} from '../../lib/core/limit.js'`,
      `const {parseLimit} = await import('../../lib/core/limit.js')`,
    )
    expect(violations([command])).toEqual([])
  })

  it('finds a cycle, once', () => {
    const ring = [
      file('src/lib/core/a.ts', `import {b} from './b.js'`),
      file('src/lib/core/b.ts', `export * from './c.js'`),
      file('src/lib/core/c.ts', `import type {A} from './a.js'`),
    ]
    const cycle = 'src/lib/core/a -> src/lib/core/b -> src/lib/core/c -> src/lib/core/a'
    expect(violations(ring)).toEqual([`import cycle: ${cycle}`])
  })

  it('refuses an import upward between the sub-rooms of a room', () => {
    const planted = file('src/lib/repository/table/planted.ts', `import type {Buckets} from '../buckets/buckets.js'`)
    expect(violations([planted])).toEqual([
      'src/lib/repository/table/planted.ts: src/lib/repository/table may not import src/lib/repository/buckets/buckets',
    ])
  })

  it('refuses a command or presenter that loads the schemas of results', () => {
    const line = `import {versionResult} from '../lib/cli/results/help.js'`
    const breach = 'src/lib/cli/results/help must be imported as a type: it loads zod'
    expect(violations([file('src/commands/version.ts', line)])).toEqual([expect.stringContaining(breach)])
    expect(violations([file('src/commands/version.ts', line.replace('import', 'import type'))])).toEqual([])
  })

  it('refuses a sub-room that is not in the table', () => {
    const planted = file('src/lib/repository/attic/planted.ts', `import {table} from '../table/table.js'`)
    expect(violations([planted])).toEqual([expect.stringContaining('src/lib/repository/attic may not import')])
  })

  it('finds a circle between folders although no file is part of a circle', () => {
    const ring = [
      file('src/lib/cli/base/a.ts', `import {b} from '../output/b.js'`),
      file('src/lib/cli/output/b.ts', ''),
      file('src/lib/cli/output/c.ts', `import {d} from '../base/d.js'`),
      file('src/lib/cli/base/d.ts', ''),
    ]
    expect(violations(ring)).toContain('folder cycle: src/lib/cli/base -> src/lib/cli/output -> src/lib/cli/base')
  })

  it('refuses a folder with too many files', () => {
    const files = Array.from({length: MOST_FILES_IN_A_FOLDER + 1}, (_, at) => file(`src/lib/core/f${at}.ts`))
    expect(violations(files)).toEqual(['src/lib/core has 26 files, more than 25'])
  })

  it('reads code, not comments', () => {
    const text = [`// import 'ink'`, `/* import 'react' */ export const url = 'http://x' // import('yaml')`]
    expect(violations([file('src/lib/core/a.ts', ...text)])).toEqual([])
  })
})
