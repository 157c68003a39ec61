import {readFile, writeFile} from 'node:fs/promises'
import {posix} from 'node:path'
import {describe, expect, it} from 'vitest'
import {type ImportLine, importCycles, importLines, type SourceFile} from './helpers/import-lines.js'
import {INSIDE, ONLY_IN, ROOMS, type Room, roomTable} from './helpers/rooms.js'
import {readSources} from './helpers/sources.js'

/** Rooms that a command may import without `await import()`. Others would slow every start of zael. */
const COMMANDS_STATIC: Pick<Room, 'rooms' | 'packages'> = {rooms: ['cli'], packages: ['@oclif/*']}

/** Other static imports that commands may have: their flags, and an error to throw. */
const LIGHT = ['src/lib/core/errors', 'src/lib/live/flags']

/** Every breach of the house rules in the given source files, one line each. */
function violations(files: readonly SourceFile[]): string[] {
  const breaches = files.flatMap(file => {
    const room = roomOf(file.path)
    const rule = ROOMS[room]
    if (!rule) return [`${file.path} is in no room of the house`]
    return importLines(file).flatMap(line => {
      const what = line.target ?? line.specifier
      if (!isInItsPlace(file.path, line)) return [`${file.path}: ${what} is imported elsewhere only`]
      if (!isAllowed(room, rule, line)) return [`${file.path}: ${room} may not import ${what}`]
      if (!isAllowedInside(file.path, line)) return [`${file.path}: ${folderOf(file.path)} may not import ${what}`]
      if (loadsResults(file.path, line)) return [`${file.path}: ${what} must be imported as a type: it loads zod`]
      const mustWait =
        room === 'commands' &&
        line.kind === 'static' &&
        !LIGHT.includes(line.target ?? '') &&
        !isAllowed(room, COMMANDS_STATIC, line)
      return mustWait ? [`${file.path}: ${what} must come by await import()`] : []
    })
  })
  return [
    ...breaches,
    ...importCycles(files).map(ring => `import cycle: ${ring}`),
    ...folderCycles(files).map(ring => `folder cycle: ${ring}`),
  ]
}

/** Whether a package that only a part of its room knows is imported there. */
function isInItsPlace(path: string, {specifier}: ImportLine): boolean {
  const places = ONLY_IN.filter(({room, packages}) => roomOf(path) === room && packages.test(specifier))
  return places.every(({path: place}) => path.startsWith(place))
}

/** Whether an import within one room follows the arrows between its sub-rooms. */
function isAllowedInside(path: string, {target}: ImportLine): boolean {
  const room = roomOf(path)
  if (target === undefined || roomOf(target) !== room) return true
  const from = subRoomOf(path)
  const to = subRoomOf(target)
  return from === to || (INSIDE[room]?.[from]?.includes(to) ?? false)
}

/** Whether a file imports more than types from the schemas of results, `results.ts` or `…-results.ts`, and is none itself. */
function loadsResults(path: string, {target, kind}: ImportLine): boolean {
  const isResults = (file: string): boolean => /^src\/lib\/(?:(?:cli|live)\/(?:.*[/-])?)?results(?:\.ts)?$/.test(file)
  return kind !== 'type' && !isResults(path) && target !== undefined && isResults(target)
}

/** `src/lib/infra/deploy/plan.ts` → `deploy`, `src/lib/limiter/lease.ts` → `.`. */
function subRoomOf(path: string): string {
  return /^src\/lib\/[^/]+\/(.+)\/[^/]+$/.exec(path)?.[1] ?? '.'
}

const folderOf = (path: string): string => path.replace(/\/[^/]*$/, '')

/** Cycles between folders. Each folder counts as one file with the imports of all its files. */
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

function isAllowed(room: string, rule: Pick<Room, 'rooms' | 'packages'>, {specifier, target}: ImportLine): boolean {
  if (target !== undefined) return roomOf(target) === room || rule.rooms.includes(roomOf(target))
  return rule.packages.some(name => (name.endsWith('*') ? specifier.startsWith(name.slice(0, -1)) : specifier === name))
}

/** `src/lib/core/limits/limit.ts` → `core`, `src/lib/cli/base/context.ts` → `cli`, `src/commands/help.ts` → `commands`. */
function roomOf(path: string): string {
  return /^src\/lib\/([^/.]+)/.exec(path)?.[1] ?? /^src\/(commands)\//.exec(path)?.[1] ?? path
}

function file(path: string, ...lines: string[]): SourceFile {
  return {path, text: lines.join('\n')}
}

describe('the source tree', () => {
  it('follows the import rules', () => {
    const files = readSources()
    expect(files.length).toBeGreaterThan(0)
    expect(violations(files)).toEqual([])
  })

  it('matches the table of rooms in CONTRIBUTING.md', async () => {
    const path = new URL('../CONTRIBUTING.md', import.meta.url)
    const page = await readFile(path, 'utf8')
    const table = /(?<=<!-- rooms, written by: .* -->\n\n).*(?=\n\n<!-- end of rooms -->)/s
    const current = page.replace(table, () => roomTable())
    if (process.env.ZAEL_ROOMS === 'write') await writeFile(path, current)
    else expect(page).toBe(current)
    expect(current).toContain(roomTable())
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

  it('accepts the imports that commands need', () => {
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

  it('reports a cycle once', () => {
    const ring = [
      file('src/lib/core/a.ts', `import {b} from './b.js'`),
      file('src/lib/core/b.ts', `export * from './c.js'`),
      file('src/lib/core/c.ts', `import type {A} from './a.js'`),
    ]
    const cycle = 'src/lib/core/a -> src/lib/core/b -> src/lib/core/c -> src/lib/core/a'
    expect(violations(ring)).toEqual([`import cycle: ${cycle}`])
  })

  it('refuses an upward import between sub-rooms', () => {
    const planted = file('src/lib/repository/table/planted.ts', `import type {Buckets} from '../buckets/buckets.js'`)
    expect(violations([planted])).toEqual([
      'src/lib/repository/table/planted.ts: src/lib/repository/table may not import src/lib/repository/buckets/buckets',
    ])
  })

  it('refuses a command or presenter that loads the schemas of results', () => {
    const line = `import {versionResult} from '../lib/cli/help/results.js'`
    const breach = 'src/lib/cli/help/results must be imported as a type: it loads zod'
    expect(violations([file('src/commands/version.ts', line)])).toEqual([expect.stringContaining(breach)])
    expect(violations([file('src/commands/version.ts', line.replace('import', 'import type'))])).toEqual([])
  })

  it('refuses a sub-room that is not in the table', () => {
    const planted = file('src/lib/repository/attic/planted.ts', `import {table} from '../table/table.js'`)
    expect(violations([planted])).toEqual([expect.stringContaining('src/lib/repository/attic may not import')])
  })

  it('finds a cycle between folders even if no file is in a cycle', () => {
    const ring = [
      file('src/lib/cli/base/a.ts', `import {b} from '../output/b.js'`),
      file('src/lib/cli/output/b.ts', ''),
      file('src/lib/cli/output/c.ts', `import {d} from '../base/d.js'`),
      file('src/lib/cli/base/d.ts', ''),
    ]
    expect(violations(ring)).toContain('folder cycle: src/lib/cli/base -> src/lib/cli/output -> src/lib/cli/base')
  })

  it('ignores comments', () => {
    const text = [`// import 'ink'`, `/* import 'react' */ export const url = 'http://x' // import('yaml')`]
    expect(violations([file('src/lib/core/a.ts', ...text)])).toEqual([])
  })
})
