import {mkdtemp, rm, writeFile} from 'node:fs/promises'
import {createServer} from 'node:http'
import type {AddressInfo} from 'node:net'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterAll, beforeAll, describe, expect, inject, it} from 'vitest'
import {parse} from 'yaml'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {HOSTILE, HOSTILE_WORD, populateHostile} from './hostile-text.js'
import {EVENT_ID} from './populate.js'
import {type Outcome, zael} from './zael.js'

const DAY = ['--since', '2026-11-01', '--until', '2026-11-02']
const H = HOSTILE_WORD

/** Commands that read; FILE is a manifest. */
const READING: readonly (readonly string[])[] = [
  ['acquire', 'through-library', 'gpt-4', 'rpm=1', '--dry-run'],
  ['acquire', 'through-library', 'gpt-4', 'rpm=100000'],
  ['acquire', H, H, 'rpm=1', '--dry-run'],
  ['audit', 'list'],
  ['audit', 'list', '--columns', 'time,action,entity,resource,principal,details,id'],
  ['audit', 'list', H],
  ['audit', 'show', EVENT_ID],
  ['audit', 'show', H],
  ['bucket', 'list', '--resource', 'gpt-4'],
  ['bucket', 'list', '--resource', H],
  ['bucket', 'show', 'user-1'],
  ['bucket', 'show', H],
  ['config', 'show', '--profile', H],
  ['deploy', '--dry-run'],
  ['entity', 'children', 'team-1'],
  ['entity', 'children', H],
  ['entity', 'delete', 'through-library', '--dry-run'],
  ['entity', 'list', '--all'],
  ['entity', 'list', '--all', '--columns', 'id,name,metadata'],
  ['entity', 'list', '--columns', H],
  ['entity', 'show', 'through-library'],
  ['entity', 'show', H],
  ['limits', 'diff', '--file', 'FILE'],
  ['limits', 'export'],
  ['limits', 'get', '--resource', H],
  ['limits', 'list'],
  ['limits', 'plan', '--file', 'FILE'],
  ['limits', 'resolve', 'through-library', 'gpt-4'],
  ['limits', 'resolve', H, H],
  ['migrate', 'plan'],
  ['migrate', 'status'],
  ['migrate', 'verify'],
  ['namespace', 'list'],
  ['namespace', 'orphans'],
  ['namespace', 'show', 'default'],
  ['namespace', 'show', H],
  ['status'],
  ['usage', 'export', '--window', 'hourly', ...DAY],
  ['usage', 'show', 'user-1', ...DAY],
  ['usage', 'show', H, ...DAY],
  ['usage', 'summary', 'user-1', ...DAY],
  ['usage', 'top', ...DAY],
  ['watch', '--once'],
  ['watch', '--for', '1s'],
  ['why', 'through-library', 'gpt-4', 'rpm=100000'],
  ['why', H, H, 'rpm=1'],
]

/** Command lines whose error quotes the typed words. */
const REFUSED: readonly (readonly string[])[] = [
  [H],
  ['help', H],
  ['entity', H],
  ['entity', 'list', `--${H}`],
  ['entity', 'list', '--output', H],
  ['entity', 'list', '--limit', H],
  ['entity', 'list', '--stack', H],
  ['limits', 'set', '--system', H],
  ['limits', 'validate', '--file', H],
  ['limits', 'validate', '--file', 'FILE'],
]

const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Default_Ignorable_Code_Point}]/u
/** zael's own colours, and the sequence that erases its progress line. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they begin with one
const OWN_SEQUENCES = /\u001b\[(?:0|1|2|22|31|32|33|39)m|\r\u001b\[2K/g

/** Output that a terminal would act on. */
function harm({stdout, stderr}: Outcome): string[] {
  const planted = `${stdout}${stderr}`.includes('\u001b[31mPLANTED') ? ['a planted colour'] : []
  const lines = `${stdout}\n${stderr}`.replaceAll(OWN_SEQUENCES, '').split('\n')
  return [...planted, ...lines.filter(line => HIDDEN.test(line) || line.startsWith('Error: faked'))]
}

describeOnEngine('hostile text', {timeout: 600_000}, () => {
  const table = useTable({stream: true})
  let folder = ''

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'zael-test-'))
    const limits = {[HOSTILE]: {limits: {[HOSTILE]: HOSTILE}}}
    await writeFile(join(folder, 'limits.yaml'), JSON.stringify({namespace: 'default', resources: limits}))
    await populateHostile(table)
  })
  afterAll(() => rm(folder, {recursive: true}))

  const run = (words: readonly string[], columns?: number): Promise<Outcome> =>
    zael(
      words.map(word => word.replace('FILE', join(folder, 'limits.yaml'))),
      columns === undefined ? {} : {columns},
    )
  const onTable = (words: readonly string[]) => {
    const target = words.includes('--stack') ? [] : ['--stack', table.name]
    return [...words, ...target, '--endpoint-url', inject('engineEndpoint')]
  }
  const title = (words: readonly string[]) => words.map(word => word.replace(H, 'HOSTILE')).join(' ')

  describe.each([
    ['in a pipe', undefined],
    ['on a terminal', 80],
  ])('%s', (_, columns) => {
    it.each(READING.map(words => [title(words), words] as const))(
      'zael %s prints none of it raw',
      async (_title, words) => {
        // The live view does not print lines.
        if (columns !== undefined && words.includes('--for')) return
        expect(harm(await run(onTable(words), columns))).toEqual([])
      },
    )

    it.each(REFUSED.map(words => [title(words), words] as const))(
      'zael %s prints none of it raw',
      async (_title, words) => {
        expect(harm(await run(words, columns))).toEqual([])
      },
    )
  })

  describe.each(['json', 'yaml', 'csv'])('as %s', format => {
    const formatted = READING.filter(words => !words.includes('--for'))
    it.each(formatted.map(words => [title(words), words] as const))(
      'zael %s prints none of it raw',
      async (_title, words) => {
        expect(harm(await run([...onTable(words), '--output', format]))).toEqual([])
      },
    )
  })

  it('is shown escaped', async () => {
    const shown = '\\x1b[31mPLANTED\\x1b[0m\\x1b]52;c;aGk=\\x07'
    for (const words of [
      ['entity', 'list', '--all'],
      ['entity', 'show', 'through-library'],
      ['limits', 'list'],
      ['audit', 'list'],
      ['usage', 'top', ...DAY],
      ['bucket', 'list', '--resource', 'gpt-4'],
      ['watch', '--once'],
      ['namespace', 'list'],
      ['migrate', 'status'],
    ]) {
      expect({words, stdout: (await run(onTable(words))).stdout}).toMatchObject({
        stdout: expect.stringContaining(shown),
      })
    }
  })

  it('is exact in JSON and YAML', async () => {
    const show = ['entity', 'show', 'through-library']
    const exact = {name: HOSTILE, metadata: {[HOSTILE]: HOSTILE}}
    expect(JSON.parse((await run(onTable([...show, '--json']))).stdout)).toMatchObject(exact)
    expect(parse((await run(onTable([...show, '--output', 'yaml']))).stdout)).toMatchObject(exact)
  })

  it('is harmless in the error of an endpoint', async () => {
    const server = createServer((_, response) => {
      const type = 'com.amazonaws.dynamodb.v20120810#ValidationException'
      response.writeHead(400, {'content-type': 'application/x-amz-json-1.0'})
      response.end(JSON.stringify({__type: type, message: HOSTILE, Message: HOSTILE}))
    })
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    try {
      const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
      for (const command of ['entity list', 'status', 'doctor', 'namespace list', 'watch --for 1s']) {
        const outcome = await run([...command.split(' '), '--stack', 'x', '--endpoint-url', endpoint])
        expect({command, harm: harm(outcome)}).toEqual({command, harm: []})
        expect(outcome.stdout + outcome.stderr).toContain('PLANTED')
      }
    } finally {
      server.closeAllConnections()
      server.close()
    }
  })

  it('is not offered as a completion', async () => {
    const {stdout} = await zael(['__complete', 'entity', 'show', '--stack', table.name, ''], {
      env: {AWS_ENDPOINT_URL: inject('engineEndpoint'), AWS_REGION: 'us-east-1'},
    })
    expect(stdout.includes('PLANTED')).toBe(false)
  })
})
