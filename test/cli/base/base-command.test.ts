import {fileURLToPath} from 'node:url'
import {integer as integerArg} from '@oclif/core/args'
import {Config} from '@oclif/core/config'
import {custom, integer, string} from '@oclif/core/flags'
import {settings} from '@oclif/core/settings'
import {afterEach, beforeEach, describe, expect, it, vi} from 'vitest'
import {BaseCommand} from '../../../src/lib/cli/base/base-command.js'
import {InvalidInput, ZaelError} from '../../../src/lib/core/errors.js'

const limitFlag = custom<string>({
  parse: async text => {
    if (text === 'crash') throw new TypeError('no such thing')
    throw new InvalidInput('limit.syntax', `Cannot read "${text}".`, {hint: 'Write rpm=100.', details: {text}})
  },
})

class Sample extends BaseCommand<typeof Sample> {
  static override id = 'sample:run'
  static override args = {count: integerArg({ignoreStdin: true})}
  static override flags = {
    size: integer({default: 1}),
    colour: string({options: ['red', 'green']}),
    first: string({dependsOn: ['second']}),
    second: string(),
    limit: limitFlag(),
  }

  static work: (command: Sample) => object = () => ({})

  async run(): Promise<object> {
    this.log('working')
    return Sample.work(this)
  }

  /** The parsed input, for the tests. */
  get input() {
    return {flags: this.flags, args: this.args}
  }
}

let config: Config

beforeEach(async () => {
  settings.enableAutoTranspile = false
  config = await Config.load(fileURLToPath(new URL('../../..', import.meta.url)))
})

afterEach(() => {
  process.exitCode = undefined
  vi.restoreAllMocks()
  vi.unstubAllEnvs()
})

async function runSample(argv: string[], work: (command: Sample) => object = () => ({})) {
  Sample.work = work
  const lines = {stdout: [] as string[], stderr: [] as string[]}
  vi.spyOn(console, 'log').mockImplementation(text => lines.stdout.push(text))
  // Results of programs are written in pieces.
  const write = vi.spyOn(process.stdout, 'write').mockImplementation(text => lines.stdout.push(String(text)) > 0)
  vi.spyOn(console, 'error').mockImplementation(text => lines.stderr.push(text))
  const exit = await Sample.run(argv, config).then(
    () => 0,
    error => error.oclif.exit,
  )
  write.mockRestore()
  return {exit, stdout: lines.stdout.join('\n'), stderr: lines.stderr.join('\n')}
}

function failing(error: unknown) {
  return () => {
    throw error
  }
}

const missing = new ZaelError('notFound', 'table.missing', 'Table "x" does not exist.', {
  hint: 'zael deploy',
  details: {table: 'x'},
  cause: new Error('ResourceNotFoundException'),
})

describe('input', () => {
  it('is parsed before the command runs', async () => {
    let input: Sample['input'] | undefined
    await runSample(['7', '--size', '3', '--no-color'], command => {
      input = command.input
      return {}
    })
    expect(input).toEqual({args: {count: 7}, flags: {size: 3, 'no-color': true}})
  })

  it.each([
    [['--size', 'x'], '--size: Expected an integer but received: x'],
    [['--colour', 'blue'], 'Expected --colour=blue to be one of: red, green'],
    [['--first', 'x'], '--first requires --second'],
    [['--bogus'], 'Nonexistent flag: --bogus'],
    [['1', '2'], 'Unexpected argument: 2'],
    [['x'], 'Expected an integer but received: x'],
    [['--size'], 'Flag --size expects a value'],
  ])('exits with 2 on %j', async (argv, message) => {
    const {exit, stdout, stderr} = await runSample(argv)
    expect({exit, stdout}).toEqual({exit: 2, stdout: ''})
    expect(stderr).toBe(`Error: ${message}\nHint: zael sample run --help`)
  })

  it("keeps a flag's own error", async () => {
    const {exit, stdout} = await runSample(['--limit', 'x', '--json'])
    expect(exit).toBe(2)
    expect(JSON.parse(stdout)).toEqual({
      error: {
        code: 'limit.syntax',
        kind: 'usage',
        message: '--limit: Cannot read "x".',
        hint: 'Write rpm=100.',
        details: {text: 'x'},
      },
    })
  })

  it('reports a crash while parsing as a bug, not as bad usage', async () => {
    const {exit, stderr} = await runSample(['--limit', 'crash'])
    expect(exit).toBe(1)
    expect(stderr).toContain('this is a bug')
  })
})

describe('errors', () => {
  it('have a message, a hint and the exit code of their kind', async () => {
    expect(await runSample([], failing(missing))).toEqual({
      exit: 3,
      stdout: 'working',
      stderr: 'Error: Table "x" does not exist.\nHint: zael deploy',
    })
    expect(process.exitCode).toBe(3)
  })

  it('are the only thing on stdout in JSON mode', async () => {
    const {exit, stdout, stderr} = await runSample(['--json'], failing(missing))
    expect({exit, stderr}).toEqual({exit: 3, stderr: ''})
    expect(JSON.parse(stdout)).toEqual({
      error: {
        code: 'table.missing',
        kind: 'notFound',
        message: 'Table "x" does not exist.',
        hint: 'zael deploy',
        details: {table: 'x'},
      },
    })
  })

  it('reports an unexpected error as a bug, in one line', async () => {
    const {exit, stderr} = await runSample([], failing(new TypeError('x is not a function\nmore')))
    expect(exit).toBe(1)
    expect(stderr).toMatch(/^Error: x is not a function \(this is a bug in zael; run again with ZAEL_DEBUG=1 .*\)$/)
    const {stdout} = await runSample(['--json'], failing(new TypeError('x')))
    expect(JSON.parse(stdout).error).toMatchObject({code: 'bug', kind: 'failed', hint: null, details: {}})
    expect((await runSample([], failing('just text'))).stderr).toMatch(/^Error: just text \(this is a bug/)
  })

  it('show stack and cause with ZAEL_DEBUG=1', async () => {
    vi.stubEnv('ZAEL_DEBUG', '1')
    const {stderr} = await runSample([], failing(missing))
    expect(stderr).toMatch(
      /^Error: Table "x" does not exist\.\nHint: zael deploy\nZaelError: [\s\S]* {4}at [\s\S]*ResourceNotFound/,
    )
    expect((await runSample([], failing(new TypeError('x')))).stderr).toMatch(/\[cause\]: TypeError: x\n +at /)
  })

  it('exclude a deliberate exit', async () => {
    expect(await runSample([], command => command.exit(6))).toEqual({exit: 6, stdout: 'working', stderr: ''})
  })
})

describe('results and warnings', () => {
  it('prints only the result on stdout in JSON mode', async () => {
    const {stdout, stderr} = await runSample(['--json'], () => ({found: 2}))
    expect(stderr).toBe('')
    expect(JSON.parse(stdout)).toEqual({found: 2})
  })

  it('prints a warning to stderr, and adds it to the JSON of a result or an error', async () => {
    const warn = (command: Sample) => {
      command.warn('half done')
      return {found: 2}
    }
    expect(await runSample([], warn)).toEqual({exit: 0, stdout: 'working', stderr: 'Warning: half done'})
    const good = await runSample(['--json'], warn)
    expect(good.stderr).toBe('Warning: half done')
    expect(JSON.parse(good.stdout)).toEqual({found: 2, warnings: ['half done']})
    const bad = await runSample(['--json'], command => {
      warn(command)
      throw missing
    })
    expect(JSON.parse(bad.stdout)).toMatchObject({error: {code: 'table.missing'}, warnings: ['half done']})
  })
})
