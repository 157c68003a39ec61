import {mkdtemp, readFile, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterAll, beforeAll, describe, expect, inject, it} from 'vitest'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {EVENT_ID, populate} from './populate.js'
import {type ReadOnlyProxy, readOnlyProxy} from './read-only-proxy.js'
import {ROOT, zael} from './zael.js'

const DAY = '--since 2026-11-01 --until 2026-11-02'

/** A command line and the exit code it ends with. */
type Run = readonly [line: string, exitCode: number]

/** Read-only commands, with existing and mistyped names. FILE is a manifest of the table. */
const LOOKS: Readonly<Record<string, readonly Run[]>> = {
  acquire: [
    ['acquire user-2 gpt-4 rpm=1 --dry-run', 0],
    ['acquire user-2 gtp-4 tpm=1 --dry-run', 2],
  ],
  'audit list': [
    [`audit list`, 0],
    ['audit list user-l', 3],
  ],
  'audit show': [
    [`audit show ${EVENT_ID}`, 0],
    [`audit show ${EVENT_ID} --entity user-l`, 3],
  ],
  'bucket list': [
    ['bucket list --resource gpt-4', 0],
    ['bucket list --resource gtp-4', 3],
  ],
  'bucket show': [
    ['bucket show user-1', 0],
    ['bucket show user-l', 3],
  ],
  cost: [
    ['cost', 0],
    ['cost --days 0', 2],
  ],
  doctor: [['doctor', 0]],
  // A table without a version record is not taken for ours.
  delete: [['delete --delete-table --dry-run', 5]],
  deploy: [['deploy --dry-run', 0]],
  'entity children': [
    ['entity children team-1', 0],
    ['entity children team-l', 3],
  ],
  'entity delete': [
    ['entity delete idle --dry-run', 0],
    ['entity delete idel --dry-run', 3],
  ],
  'entity import': [['entity import LIST --dry-run', 0]],
  'entity list': [['entity list', 0]],
  'entity show': [
    ['entity show user-1', 0],
    ['entity show user-l', 3],
  ],
  'limits apply': [['limits apply --file FILE --dry-run', 0]],
  'holders list': [
    ['holders list', 0],
    ['holders list --slots', 0],
  ],
  'run list': [
    ['run list', 0],
    ['run list --ended', 0],
  ],
  'run show': [['run show nothing', 3]],
  'limits boosts': [['limits boosts', 0]],
  'limits diff': [['limits diff --file FILE', 0]],
  'limits export': [
    ['limits export', 0],
    ['limits export --output csv', 0],
  ],
  'limits get': [
    ['limits get --resource gpt-4', 0],
    ['limits get --resource gtp-4', 3],
  ],
  'limits impact': [[`limits impact --resource gpt-4 rpm=1 ${DAY}`, 0]],
  'limits list': [['limits list', 0]],
  'limits plan': [
    ['limits plan --file FILE', 0],
    ['limits plan --file FILE --exit-code', 0],
  ],
  'limits resolve': [
    ['limits resolve user-1 gpt-4', 0],
    ['limits resolve user-l gpt-4', 0],
  ],
  'limits set': [
    ['limits set --resource gpt-4 rpm=7 --dry-run', 0],
    ['limits set --entity user-l rpm=7 --dry-run', 0],
  ],
  'migrate cleanup': [['migrate cleanup --dry-run', 0]],
  'migrate plan': [['migrate plan', 0]],
  'migrate run': [['migrate run --dry-run', 0]],
  // The table has no stream, which a run would add.
  'migrate status': [['migrate status', 6]],
  'migrate verify': [['migrate verify', 0]],
  'namespace list': [['namespace list', 0]],
  'aggregator dead-letters': [['aggregator dead-letters', 0]],
  'namespace orphans': [['namespace orphans', 0]],
  'namespace purge': [['namespace purge nowhere --dry-run', 3]],
  'namespace show': [
    ['namespace show default', 0],
    ['namespace show defalt', 3],
  ],
  status: [
    ['status', 0],
    ['status --json', 0],
  ],
  'usage export': [[`usage export ${DAY}`, 0]],
  'usage show': [
    [`usage show user-1 ${DAY}`, 0],
    ['usage show user-l', 3],
  ],
  'usage summary': [
    [`usage summary user-1 ${DAY}`, 0],
    ['usage summary --resource gtp-4', 3],
  ],
  'usage top': [
    [`usage top ${DAY}`, 0],
    ['usage top --resource gtp-4', 3],
  ],
  // The table of this test has records that disagree.
  verify: [['verify', 6]],
  watch: [
    ['watch --once', 0],
    ['watch --for 1s', 0],
    ['watch --prometheus', 0],
    ['watch --prometheus --listen 0 --for 1s', 0],
    ['watch --once --entity user-l', 3],
    // The question needs a terminal.
    ['watch --actions', 2],
  ],
  why: [
    ['why user-2 gpt-4 rpm=1', 0],
    ['why user-2', 0],
    ['why user-l', 3],
    ['why user-l gpt-4', 0],
  ],
}

/** Commands that write when all is right. With a mistyped namespace they must not. */
const WRITERS: Readonly<Record<string, string>> = {
  'bucket reset': 'bucket reset user-1 --resource gpt-4 --yes',
  'bucket top-up': 'bucket top-up user-1 gpt-4 rpm=1 --yes',
  'entity bypass': 'entity bypass user-1',
  'entity cascade': 'entity cascade user-1 on',
  'entity clear': 'entity clear user-1',
  'entity create': 'entity create new',
  'entity disable': 'entity disable user-1',
  'entity enable': 'entity enable user-1',
  'entity exempt': 'entity exempt user-1',
  'entity update': 'entity update user-1 --name New',
  'holders release': 'holders release nobody --force --yes',
  'run end': 'run end nothing --yes',
  'limits unlock': 'limits unlock --yes',
  'limits unset': 'limits unset --resource gpt-4 rpm --yes',
  'migrate resolve': '',
  'namespace create': '',
  'namespace delete': '',
  'namespace recover': '',
  'namespace set': 'namespace set default --levels all',
  'resource bypass': 'resource bypass gpt-4',
  'resource cascade': 'resource cascade gpt-4 on',
  'resource clear': 'resource clear gpt-4',
  'resource disable': 'resource disable gpt-4',
  'resource enable': 'resource enable gpt-4',
}

/** Commands that work on no stack, or on the processes of the local one. */
const ELSEWHERE = [
  'aggregator redrive',
  'autocomplete',
  'limits validate',
  'config show',
  'help',
  'list',
  'version',
  'local down',
  'local env',
  'local logs',
  'local status',
  'local up',
]

interface ManifestCommand {
  readonly flags: Readonly<Record<string, unknown>>
}

async function commands(): Promise<Map<string, ManifestCommand>> {
  const manifest = JSON.parse(await readFile(join(ROOT, 'oclif.manifest.json'), 'utf8'))
  return new Map(
    Object.entries<ManifestCommand>(manifest.commands).map(([id, each]) => [id.replaceAll(':', ' '), each]),
  )
}

describe('the list of commands', () => {
  it('includes every command, and counts those with --dry-run as read-only', async () => {
    const all = await commands()
    const listed = [...Object.keys(LOOKS), ...Object.keys(WRITERS), ...ELSEWHERE]
    expect(listed.toSorted()).toEqual([...all.keys()].toSorted())
    const dry = [...all].flatMap(([id, {flags}]) => ('dry-run' in flags ? [id] : []))
    expect(dry.filter(id => !LOOKS[id])).toEqual([])
  })
})

/** L8: a read-only command never writes. */
describeOnEngine('L8 read-only commands write nothing', () => {
  const table = useTable()
  let proxy: ReadOnlyProxy
  let folder = ''

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'zael-read-only-'))
    proxy = await readOnlyProxy(inject('engineEndpoint'))
    await populate(table)
    const {stdout} = await run('limits export')
    await writeFile(join(folder, 'limits.yaml'), stdout)
    await writeFile(join(folder, 'list.csv'), 'id,name\nuser-1,Other\nnew,New\n')
  })

  afterAll(async () => {
    await proxy[Symbol.asyncDispose]()
    await rm(folder, {recursive: true})
  })

  const run = (line: string, stack = table.name) => {
    const files: Readonly<Record<string, string>> = {FILE: 'limits.yaml', LIST: 'list.csv'}
    const words = line.split(' ').map(word => (files[word] ? join(folder, files[word]) : word))
    return zael([...words, '--stack', stack, '--endpoint-url', proxy.endpoint])
  }
  /** Runs command lines in parallel; returns their exit codes and the refused writes. */
  const outcomes = async (runs: readonly Run[], stack?: string) => {
    const ended = await Promise.all(runs.map(([line]) => run(line, stack)))
    const codes = ended.map(({code, stderr}, at): [string | undefined, unknown] => {
      const expected = runs[at]?.[1]
      return [runs[at]?.[0], code === expected ? code : `${code}: ${stderr}`]
    })
    return {codes, writes: proxy.takeWrites()}
  }

  it('reports a write that the proxy refused', async () => {
    const {codes, writes} = await outcomes([['entity create new', 4]])
    expect(codes).toEqual([['entity create new', 4]])
    expect(writes.length).toBeGreaterThan(0)
  })

  it.each(Object.entries(LOOKS))('%s', async (_, runs) => {
    proxy.takeReads()
    expect(await outcomes(runs)).toEqual({codes: runs, writes: []})
    expect(proxy.takeReads().length).toBeGreaterThan(0)
  })

  it('writes nothing to a mistyped namespace or stack', async () => {
    const all = await commands()
    const takesNamespace = (id: string) => 'namespace' in (all.get(id)?.flags ?? {})
    const lines = Object.entries({
      ...WRITERS,
      ...Object.fromEntries(Object.entries(LOOKS).map(([id, [first]]) => [id, first?.[0] ?? ''])),
    })
      .filter(([id]) => takesNamespace(id) && !/^limits (apply|diff|plan)$/.test(id))
      .map(([, line]) => line)
    expect(lines.length).toBeGreaterThan(10)
    for (let at = 0; at < lines.length; at += 4) {
      const few = lines.slice(at, at + 4)
      const runs = few.map((line): Run => [`${line} --namespace defalt`, 3])
      expect(await outcomes(runs)).toEqual({codes: runs, writes: []})
      const elsewhere = few.map((line): Run => [line, 3])
      expect(await outcomes(elsewhere, `${table.name}x`)).toEqual({codes: elsewhere, writes: []})
    }
  }, 600_000)
})
