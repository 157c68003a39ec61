import {mkdtemp, readFile, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterAll, beforeAll, describe, expect, inject, it} from 'vitest'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {EVENT_ID, populate} from './populate.js'
import {resultSchemas, schemaProblems} from './schemas.js'
import {ROOT, zael} from './zael.js'

const DAY = '--since 2026-11-01 --until 2026-11-02'

/** One line per command on a stack; FILE is a manifest. Commands that write come last, each on its own data. */
const LINES = [
  'acquire user-2 gpt-4 rpm=1 --dry-run',
  'audit list',
  `audit show ${EVENT_ID}`,
  'bucket list --resource gpt-4',
  'bucket show user-1',
  'deploy --dry-run',
  'entity children team-1',
  'entity delete idle --dry-run',
  'entity list',
  'entity show user-1',
  'holders list --slots',
  'run list',
  'limits apply --file FILE --dry-run',
  'limits diff --file FILE',
  'limits export',
  'limits boosts',
  'limits get --resource gpt-4',
  `limits impact --resource gpt-4 rpm=1 ${DAY}`,
  'limits list',
  'limits plan --file FILE',
  'limits resolve user-1 gpt-4',
  'limits set --resource gpt-4 rpm=7 --dry-run',
  'limits unlock',
  'migrate plan',
  'migrate run --dry-run',
  'migrate status',
  'migrate verify',
  'aggregator dead-letters',
  'namespace list',
  'namespace orphans',
  'namespace show default',
  'namespace set default --levels parent',
  'status',
  `usage show user-1 ${DAY}`,
  `usage export ${DAY}`,
  `usage summary user-1 ${DAY}`,
  `usage top ${DAY}`,
  'watch --once --entity user-1',
  'why user-2 gpt-4 rpm=1',
  'why user-1',
  'namespace create width-WIDTH',
  'namespace delete width-WIDTH --yes',
  'namespace recover width-WIDTH',
  'entity create new-WIDTH --parent team-1',
  'entity update new-WIDTH --name New',
  'limits set --entity new-WIDTH rpm=9/min tpd=90/day',
  'limits unset --entity new-WIDTH rpm',
  'acquire new-WIDTH gpt-4 tpd=1',
  'bucket reset new-WIDTH --resource gpt-4 --yes',
  'bucket top-up new-WIDTH gpt-4 tpd=1 --yes',
  'entity cascade new-WIDTH on',
  'resource cascade search off',
  'entity disable new-WIDTH --resource gpt-4',
  'entity bypass new-WIDTH',
  'entity exempt new-WIDTH',
  'entity enable new-WIDTH',
  'entity clear new-WIDTH',
  'resource disable search',
  'resource bypass search',
  'resource enable search',
  'resource clear search',
] as const

const ELSEWHERE = ['limits validate --file FILE', 'version', 'help exit-codes', 'local status'] as const

describeOnEngine('what people see', {timeout: 600_000}, () => {
  // With a stream, like a stack: otherwise `migrate status` says that one is missing.
  const table = useTable({stream: true})
  let folder = ''
  let namespaceId = ''

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'zael-test-'))
    await writeFile(join(folder, 'limits.yaml'), 'namespace: default\nsystem:\n  limits:\n    rpm: 60/min\n')
    namespaceId = await populate(table)
  })
  afterAll(() => rm(folder, {recursive: true}))

  const flags = () => ['--stack', table.name, '--endpoint-url', inject('engineEndpoint')]

  const wordsOf = (line: string, mine: string) =>
    line.replace('FILE', join(folder, 'limits.yaml')).replaceAll('WIDTH', mine).split(' ')

  async function show(line: string, columns: number, flags: readonly string[]): Promise<string> {
    const words = wordsOf(line, String(columns))
    const width = {NO_COLOR: '1', COLUMNS: String(columns), OCLIF_COLUMNS: String(columns)}
    const env = {...width, ZAEL_DATA_DIR: folder, ZAEL_PRINCIPAL: 'ops'}
    const {code, stdout, stderr} = await zael([...words, ...flags], {env})
    return steady(`${stdout}${stderr === '' ? '' : `--- stderr\n${stderr}`}--- exit ${code}\n`)
  }

  /** Replaces values that vary between runs. */
  function steady(text: string): string {
    return text
      .replaceAll(folder, 'FOLDER')
      .replaceAll(table.name, 'STACK')
      .replaceAll(inject('engineEndpoint'), 'ENDPOINT')
      .replaceAll(namespaceId, 'NAMESPACEID')
      .replaceAll(/\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z/g, '2026-01-01T00:00:00Z')
      .replaceAll(/\b[\w-]{11}(?= {2}2026-01-01T00:00:00Z {2}(active|deleted))/g, 'NAMESPACEID')
      .replaceAll(/(?<=id +|\(|created |recover |purge )[\w-]{11}(?=$|\)| {2})/gm, 'NAMESPACEID')
      .replaceAll(/\b(in )?\d+ (d|h|min|s)( \d+ (h|min|s))?\b/g, 'SOME TIME')
      .replaceAll(/\d+ ms\b/g, 'SOME TIME')
      .replaceAll(/zael\/\S+ \S+ \S+/g, 'VERSION')
      .replaceAll(/(?<=active, )[\d,]+ items?, [\d.]+ \w+/g, 'SOME ITEMS')
      .replaceAll(/(?<=": )\d+ items(?=, \d+ of them in older)/g, 'SOME ITEMS')
      .replaceAll(/ +(?=SOME TIME)/g, ' ')
  }

  describe.each([80, 120])('in %i columns', columns => {
    it.each(LINES)('zael %s', async line => {
      expect(await show(line, columns, flags())).toMatchSnapshot()
    })

    it.each(ELSEWHERE)('zael %s', async line => {
      expect(await show(line, columns, [])).toMatchSnapshot()
    })
  })

  describe('as JSON', () => {
    it.each(LINES)('zael %s fits its schema', async line => {
      const {code, stdout, stderr} = await zael([...wordsOf(line, 'json'), ...flags(), '--json'])
      expect({code, stderr}).toEqual({code: 0, stderr: ''})
      expect(schemaProblems(commandOf(line), JSON.parse(stdout))).toEqual([])
    })

    it('has a schema for every command on a stack, and no other', async () => {
      const {commands} = JSON.parse(await readFile(join(ROOT, 'oclif.manifest.json'), 'utf8'))
      const ids = Object.keys(commands).filter(id => 'stack' in commands[id].flags)
      const shown = new Set(LINES.map(commandOf))
      // Tested where its confirmation is.
      expect(ids.map(id => id.replace(':', ' ')).filter(id => !shown.has(id))).toEqual([
        'aggregator redrive',
        'config show',
        'cost',
        'delete',
        'doctor',
        'entity import',
        'holders release',
        'migrate cleanup',
        'migrate resolve',
        'namespace purge',
        'run end',
        'run show',
        'verify',
      ])
      expect(ids.filter(id => !(id.replace(':', ' ') in resultSchemas()))).toEqual([])
    })
  })

  it('a flag that no command knows is named, with exit code 2', async () => {
    const {commands} = JSON.parse(await readFile(join(ROOT, 'oclif.manifest.json'), 'utf8'))
    for (const id of Object.keys(commands)) {
      const {code, stdout} = await zael([...id.split(':'), '--no-such-flag', '--json'])
      const {error} = JSON.parse(stdout)
      expect({id, code, isNamed: error.message.includes('--no-such-flag')}).toEqual({id, code: 2, isNamed: true})
    }
  })
})

/** `limits set --resource …` → `limits set`. */
function commandOf(line: string): string {
  const [topic = '', verb = ''] = line.split(' ')
  return ['acquire', 'deploy', 'status', 'watch', 'why'].includes(topic) ? topic : `${topic} ${verb}`
}
