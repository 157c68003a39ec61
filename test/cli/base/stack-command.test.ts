import {fileURLToPath} from 'node:url'
import {Config} from '@oclif/core/config'
import {settings} from '@oclif/core/settings'
import {afterEach, beforeEach, describe, expect, inject, it, vi} from 'vitest'
import {parse} from 'yaml'
import type {StackContext} from '../../../src/lib/cli/base/context.js'
import {StackCommand, TableCommand} from '../../../src/lib/cli/base/stack-command.js'
import {listFlags, pageFlags} from '../../../src/lib/cli/output/listing.js'
import type {ClosableTransport} from '../../../src/lib/dynamo/transport.js'
import {Repository} from '../../../src/lib/repository/repository.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'

interface Runnable {
  run(argv: string[], config: Config): Promise<unknown>
}

type Work = (command: Sample, stack: StackContext) => Promise<object> | object

class Sample extends StackCommand<typeof Sample> {
  static override id = 'sample:show'
  static doWork: Work = () => ({})

  protected async work(): Promise<object> {
    return Sample.doWork(this, this.stack)
  }
}

class SampleList extends StackCommand<typeof SampleList> {
  static override id = 'sample:list'
  static override flags = {...pageFlags, ...listFlags}

  protected async work(): Promise<object> {
    const rows = ['a', 'b']
    this.log('some words')
    await this.list({rows, columns: [{name: 'id', value: (row: string) => row}], empty: 'none'})
    this.suggestNextPage('CURSOR')
    return {ids: rows, limit: this.flags.limit, all: this.flags.all ?? false}
  }
}

class SampleLong extends StackCommand<typeof SampleLong> {
  static override id = 'sample:long'
  static override flags = listFlags
  static items: () => AsyncIterable<string>

  protected async work(): Promise<object> {
    this.warn('slow')
    const listing = (rows: readonly string[]) => ({
      rows,
      columns: [{name: 'id', value: (row: string) => row}],
      empty: '',
    })
    return this.listAll({field: 'ids', items: SampleLong.items(), json: id => ({id}), listing})
  }
}

class SampleWhole extends TableCommand<typeof SampleWhole> {
  static override id = 'sample:whole'

  protected async work(): Promise<object> {
    return {names: (await this.stack.repository.namespaces.list()).map(({name}) => name)}
  }
}

let config: Config

beforeEach(async () => {
  settings.enableAutoTranspile = false
  config = await Config.load(fileURLToPath(new URL('../../..', import.meta.url)))
  vi.stubEnv('COLUMNS', undefined)
})

afterEach(() => {
  process.exitCode = undefined
  vi.restoreAllMocks()
  vi.unstubAllEnvs()
})

describeOnEngine('a command on a stack', () => {
  const table = useTable()
  const repository = new Repository({stack: table.name, transport: table.transport})
  const flags = ['--stack', table.name, '--endpoint-url', inject('engineEndpoint')]

  async function run(command: Runnable, ...argv: string[]) {
    const stdout: string[] = []
    const stderr: string[] = []
    vi.spyOn(console, 'log').mockImplementation(text => stdout.push(`${text}\n`))
    vi.spyOn(console, 'error').mockImplementation(text => stderr.push(`${text}\n`))
    vi.spyOn(process.stdout, 'write').mockImplementation(text => stdout.push(String(text)) > 0)
    vi.spyOn(process.stderr, 'write').mockImplementation(text => stderr.push(String(text)) > 0)
    const exit = await command.run([...argv, ...flags], config).then(
      () => 0,
      error => error.oclif?.exit,
    )
    vi.restoreAllMocks()
    return {exit, stdout: stdout.join(''), stderr: stderr.join('')}
  }

  const work = (doWork: Work, ...argv: string[]) => {
    Sample.doWork = doWork
    return run(Sample, ...argv)
  }

  it('gets a stack that is closed afterwards, even when the work fails', async () => {
    await repository.namespaces.register('default')
    for (const fails of [false, true]) {
      let closed = 0
      const {exit} = await work(async (_, stack) => {
        const transport = stack.table.transport as ClosableTransport
        const close = transport.close.bind(transport)
        transport.close = () => {
          closed++
          return close()
        }
        await stack.namespace()
        if (fails) throw new Error('no luck')
        return {}
      })
      expect({exit, closed}).toEqual({exit: fails ? 1 : 0, closed: 1})
    }
  })

  it('prints text, JSON or YAML according to --output', async () => {
    const tell: Work = command => {
      command.log('for people')
      return {found: 2}
    }
    expect((await work(tell)).stdout).toBe('for people\n')
    for (const argv of [['--json'], ['--output', 'json'], ['-o', 'json']]) {
      expect(JSON.parse((await work(tell, ...argv)).stdout)).toEqual({found: 2})
    }
    const yaml = (await work(tell, '--output', 'yaml')).stdout
    expect(yaml).toBe('found: 2\n')
    expect(parse(yaml)).toEqual({found: 2})
    const csv = await work(tell, '--output', 'csv')
    expect(csv).toEqual({exit: 2, stdout: '', stderr: expect.stringContaining('Only lists')})
  })

  it('prints errors in the same format, with the nearest names', async () => {
    await repository.namespaces.registerMany(['default', 'acme'])
    const needNamespace: Work = async (_, stack) => ({found: Boolean(await stack.namespace())})
    expect(await work(needNamespace, '-n', 'acem')).toEqual({
      exit: 3,
      stdout: '',
      stderr: expect.stringMatching(
        /^Error: Namespace "acem" does not exist\.\nHint: Did you mean "acme"\? To create a new one: zael namespace create acem .*\n$/,
      ),
    })
    for (const format of ['json', 'yaml']) {
      const {exit, stdout, stderr} = await work(needNamespace, '-n', 'acem', '--output', format)
      expect({exit, stderr}).toEqual({exit: 3, stderr: ''})
      expect(parse(stdout).error).toMatchObject({code: 'namespace.missing', details: {nearest: ['acme']}})
    }
  })

  it('lists rows, only rows as CSV, and says how to get more', async () => {
    expect(await run(SampleList)).toEqual({
      exit: 0,
      stdout: 'some words\nID\na\nb\n',
      stderr: 'More rows exist. Add --all, or --cursor with the value of "next" from --json\n',
    })
    expect((await run(SampleList, '--sort', '-id')).stderr).toBe(
      '--sort sorted only the rows above; add --all to sort everything.\n' +
        'More rows exist. Add --all, or --cursor with the value of "next" from --json\n',
    )
    expect((await run(SampleList, '-o', 'csv')).stderr).toBe('More rows exist. Add --all, or --cursor CURSOR\n')
    expect((await run(SampleList, '-o', 'csv')).stdout).toBe('id\na\nb\n')
    expect(JSON.parse((await run(SampleList, '--json')).stdout)).toEqual({ids: ['a', 'b'], limit: 50, all: false})
    const wrong = await run(SampleList, '--json', '--columns', 'no')
    expect(wrong).toMatchObject({exit: 2})
    expect(JSON.parse(wrong.stdout).error.code).toBe('list.column')
  })

  it('prints one JSON document per row as jsonl, and an error as one', async () => {
    expect(await run(SampleList, '--output', 'jsonl')).toMatchObject({
      exit: 0,
      stdout: '"a"\n"b"\n',
      // Rows have no place for a cursor.
      stderr: 'More rows exist. Add --all, or --cursor CURSOR\n',
    })
    const wrong = await run(SampleList, '--output', 'jsonl', '--columns', 'no')
    expect(wrong).toEqual({exit: 2, stdout: expect.stringMatching(/^\{"error":.*\}\n$/), stderr: ''})
    const notList = await work(() => ({found: 2}), '--output', 'jsonl')
    expect(JSON.parse(notList.stdout).error).toMatchObject({code: 'output.jsonl', kind: 'usage'})
    vi.stubEnv('ZAEL_OUTPUT', 'jsonl')
    const preferred = await work(command => {
      command.log('for people')
      return {}
    })
    expect(preferred.stdout).toBe('for people\n')
  })

  it('prints a long list once, with its warnings', async () => {
    SampleLong.items = async function* () {
      yield* ['a', 'b']
    }
    expect((await run(SampleLong)).stdout).toBe('ID\na\nb\n')
    expect((await run(SampleLong, '--output', 'jsonl')).stdout).toBe('{"id":"a"}\n{"id":"b"}\n')
    expect(JSON.parse((await run(SampleLong, '--json')).stdout)).toEqual({
      ids: [{id: 'a'}, {id: 'b'}],
      next: null,
      warnings: ['slow'],
    })
  })

  it('prints an error within a long list to stderr, and an earlier one as a document', async () => {
    let count = 0
    SampleLong.items = async function* () {
      for (let at = 0; at < count; at++) yield `item-${at}`
      throw new Error('no luck')
    }
    const early = await run(SampleLong, '--json')
    expect(early.exit).toBe(1)
    expect(JSON.parse(early.stdout).error.message).toContain('no luck')
    count = 20_000
    const late = await run(SampleLong, '--json')
    expect(late).toMatchObject({exit: 1, stderr: expect.stringContaining('Error: no luck')})
    expect(late.stdout).toContain('item-19999')
    expect(late.stdout).not.toContain('error')
  })

  it('refuses --all together with --limit or --cursor', async () => {
    expect(JSON.parse((await run(SampleList, '--all', '--json')).stdout)).toMatchObject({all: true})
    for (const other of [
      ['--limit', '5'],
      ['--cursor', 'x'],
    ]) {
      expect(await run(SampleList, '--all', ...other)).toMatchObject({exit: 2, stdout: ''})
    }
    for (const limit of ['0', '10001', 'x']) expect(await run(SampleList, '--limit', limit)).toMatchObject({exit: 2})
  })

  describe('that works on the whole stack', () => {
    it('refuses --namespace', async () => {
      await repository.namespaces.register('default')
      expect(JSON.parse((await run(SampleWhole, '--json')).stdout).names).toContain('default')
      const {exit, stderr} = await run(SampleWhole, '--namespace', 'default')
      expect({exit, stderr}).toMatchObject({exit: 2, stderr: expect.stringContaining('Nonexistent flag: --namespace')})
      vi.stubEnv('ZAEL_NAMESPACE', 'elsewhere')
      expect(await run(SampleWhole)).toMatchObject({exit: 0})
    })
  })
})
