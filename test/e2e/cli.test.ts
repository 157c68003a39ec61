import {spawn} from 'node:child_process'
import {once} from 'node:events'
import {existsSync, readFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import {describe, expect, it} from 'vitest'
import {resultSchemas, schemaProblems} from './schemas.js'
import {BIN, ROOT, run, spawnZael, zael} from './zael.js'

const {version} = JSON.parse(readFileSync(`${ROOT}/package.json`, 'utf8'))
const ESCAPE = '\u001b['

describe('help', () => {
  it('is the same for every way to request it', async () => {
    const root = await zael(['--help'])
    expect(root).toMatchObject({code: 0, stderr: ''})
    expect(root.stdout).toContain('$ zael COMMAND [FLAGS]')
    expect(root.stdout).toMatch(/COMMANDS\n(?: {2}.*\n)* {2}help +Show help/)
    expect(root.stdout).toMatch(/HELP TOPICS\n {2}limit-syntax .*\n {2}environment .*\n {2}exit-codes /)
    for (const args of [[], ['-h'], ['help']]) expect(await zael(args)).toEqual(root)
  })

  it('fits 80 columns in a pipe', async () => {
    for (const args of [
      ['help'],
      ['help', 'help'],
      ['help', 'exit-codes'],
      ['help', 'environment'],
      ['help', 'limit-syntax'],
    ]) {
      const {stdout} = await zael(args)
      expect(stdout.split('\n').filter(line => line.length > 80)).toEqual([])
    }
  })

  it('is the same with help before a command and --help after', async () => {
    const after = await zael(['version', '--help'])
    expect(after).toMatchObject({code: 0, stderr: ''})
    expect(after.stdout).toContain('$ zael version')
    expect(await zael(['help', 'version'])).toEqual(after)
    expect((await zael(['help', 'help'])).stdout).toContain('$ zael help [SUBJECT...]')
  })

  it('explains exit codes', async () => {
    const {code, stdout, stderr} = await zael(['help', 'exit-codes'])
    expect({code, stderr}).toEqual({code: 0, stderr: ''})
    expect([...stdout.matchAll(/^ {2}(\d+) +\S/gm)].map(match => Number(match[1]))).toEqual([
      0, 1, 2, 3, 4, 5, 6, 130, 143,
    ])
  })

  it('refuses an unknown topic', async () => {
    const near = await zael(['help', 'exit-code'])
    expect(near).toMatchObject({code: 2, stdout: ''})
    expect(near.stderr).toBe('Error: Unknown command or help topic "exit-code".\nHint: zael help exit-codes\n')
    expect((await zael(['nonsense', '--help'])).stderr).toContain('Error: Unknown command "nonsense".\n')
  })
})

describe('version', () => {
  it.each(['--version', '-V', 'version'])('is printed by %s', async word => {
    const {code, stdout, stderr} = await zael([word])
    expect({code, stderr}).toEqual({code: 0, stderr: ''})
    expect(stdout).toMatch(new RegExp(`^zael/${version} \\S+ node-v\\d+\\S+\n$`))
  })
})

describe('a mistake', () => {
  it('lists the commands if the command is unknown', async () => {
    const {code, stdout, stderr} = await zael(['nonsense'])
    expect({code, stdout}).toEqual({code: 2, stdout: ''})
    expect(stderr).toMatch(/^Error: Unknown command "nonsense"\.\nHint: zael --help\. Commands: .*\bhelp\b/)
  })

  it('suggests the nearest command, and does not run it', async () => {
    expect(await zael(['hlep'])).toEqual({
      code: 2,
      stdout: '',
      stderr: 'Error: Unknown command "hlep".\nHint: zael help\n',
    })
  })

  it('leads to help with a readable usage line, then examples, then global flags', async () => {
    const {stdout} = await zael(['audit', 'list', '--help'])
    expect(stdout).toContain('USAGE\n  $ zael audit list [ENTITY] [FLAGS]\n')
    const titles = stdout.match(/^[A-Z ]+$/gm)?.filter(title => title.trim() !== '')
    expect(titles).toEqual([
      ...['USAGE', 'DESCRIPTION', 'EXAMPLES', 'ARGUMENTS', 'FLAGS', 'LIST FLAGS', 'TIME FLAGS'],
      ...['STACK FLAGS', 'GLOBAL FLAGS'],
    ])
    expect(stdout.match(/List audit events: who changed what and when/g)).toHaveLength(1)
  })

  it('explains where a flag before the command belongs', async () => {
    const {code, stderr} = await zael(['--no-color', 'version'])
    expect(code).toBe(2)
    expect(stderr).toContain('\nHint: zael version --no-color\n')
    const valued = await zael(['-n', 'acme', 'entity', 'list'])
    expect(valued.stderr).toContain('\nHint: zael entity list -n acme\n')
    const spaced = await zael(['--stack', 'my stack', 'entity', 'list'])
    expect(spaced.stderr).toContain("\nHint: zael entity list --stack 'my stack'\n")
    expect((await zael(['--stack', 'prod'])).stderr).toContain('\nHint: zael --help\n')
  })

  it('prints one line and a hint for an unknown flag, without oclif internals', async () => {
    expect(await zael(['version', '--bogus'])).toEqual({
      code: 2,
      stdout: '',
      stderr: 'Error: Nonexistent flag: --bogus\nHint: zael version --help\n',
    })
  })

  it('names flags that are missing or exclude each other', async () => {
    expect((await zael(['bucket', 'list'])).stderr).toBe(
      'Error: Missing required flag --resource\nHint: zael bucket list --help\n',
    )
    expect((await zael(['bucket', 'list', '-r', 'x', '--all', '--limit', '5'])).stderr).toContain(
      '--limit cannot be combined with --all\n',
    )
  })

  it('prints the stack only with ZAEL_DEBUG=1', async () => {
    const {code, stderr} = await zael(['version', '--bogus'], {env: {ZAEL_DEBUG: '1'}})
    expect(code).toBe(2)
    expect(stderr).toMatch(/^Error: Nonexistent flag: --bogus\nHint: .*\n[\s\S]*\n {4}at /)
    expect((await zael(['version', '--bogus'], {env: {DEBUG: '1'}})).stderr).not.toContain('    at ')
  })
})

describe('--json', () => {
  it.each([
    [['help'], 0],
    [['--help'], 0],
    [['help', 'exit-codes'], 0],
    [['help', 'version'], 0],
    [['version'], 0],
    [['nonsense'], 2],
    [['nonsense', '--help'], 2],
    [['help', 'nonsense'], 2],
    [['version', '--bogus'], 2],
    [['version', 'extra'], 2],
  ])('prints one JSON document for %j, with exit code %i', async (args, expected) => {
    const {code, stdout, stderr} = await zael([...args, '--json'])
    expect({code, stderr}).toEqual({code: expected, stderr: ''})
    const document = JSON.parse(stdout)
    const about = args[0] === 'version' && args.length === 1 ? 'version' : 'help'
    expect(schemaProblems(expected === 0 ? about : 'error', document)).toEqual([])
    expect(Object.keys(document)).not.toContain('config')
  })

  it('has a schema for every command', async () => {
    const {commands} = JSON.parse(readFileSync(`${ROOT}/oclif.manifest.json`, 'utf8'))
    const named = Object.keys(commands).map(id => id.replaceAll(':', ' '))
    expect(Object.keys(resultSchemas()).toSorted()).toEqual([...named, 'error'].toSorted())
  })

  it('includes the suggestions', async () => {
    const {stdout} = await zael(['hlep', '--json'])
    expect(JSON.parse(stdout)).toEqual({
      error: {
        code: 'command.unknown',
        kind: 'usage',
        message: 'Unknown command "hlep".',
        hint: 'zael help',
        details: {suggestions: ['zael help']},
      },
    })
  })
})

describe('the process', () => {
  it('exits cleanly if its reader stops early', async () => {
    const pipe = `"${process.execPath}" "${BIN}" --help | head -1; echo "\${PIPESTATUS[0]}"`
    const {stdout, stderr} = await run('bash', ['-c', pipe], {})
    expect(stdout).toBe('Distributed rate limiting on DynamoDB.\n0\n')
    expect(stderr).toBe('')
  })

  it('exits cleanly if its reader is gone before the first byte', async () => {
    const pipe = `{ sleep 0.3; "${process.execPath}" "${BIN}" --help; echo $? >&2; } | true`
    expect((await run('bash', ['-c', pipe], {})).stderr).toBe('0\n')
  })

  it.skipIf(!existsSync('/dev/full'))('reports a full disk in one line', async () => {
    const full = `"${process.execPath}" "${BIN}" --help > /dev/full; echo $?`
    const {stdout, stderr} = await run('bash', ['-c', full], {})
    expect({stdout, stderr}).toEqual({
      stdout: '1\n',
      stderr: 'Error: The output could not be written: ENOSPC: no space left on device, write\n',
    })
  })

  it.skipIf(process.platform !== 'linux')('refuses to run with a closed stdout', async () => {
    const command = `"${process.execPath}" "${BIN}" limits list --stack local`
    const closed = await run('bash', ['-c', `${command} >&-; echo $?`], {})
    expect(closed.stdout).toBe('1\n')
    expect(closed.stderr).toContain('Error: Standard output is closed. Nothing was done.\n')
    const started = await run('bash', ['-c', `exec >&-; ${command}; exit $?`], {})
    expect([started.code, started.stderr]).toEqual([1, closed.stderr])
  })

  it.each(['> /dev/null', '| cat'])('runs with its stdout sent to %s', async where => {
    const {code, stderr} = await run('bash', ['-c', `"${process.execPath}" "${BIN}" --help ${where}; exit $?`], {})
    expect([code, stderr]).toEqual([0, ''])
  })

  it.each([
    ['a program', [process.execPath, [BIN, '--help']]],
    ['a shell without output', ['bash', ['-c', `"${process.execPath}" "${BIN}" --help; exit $?`]]],
  ] as const)('runs without output for %s', async (_, [program, args]) => {
    const child = spawn(program, args, {stdio: 'ignore'})
    expect(await once(child, 'exit')).toEqual([0, null])
  })

  it('follows NO_COLOR, FORCE_COLOR and --no-color', async () => {
    await Promise.all(
      ['--help', 'nonsense'].map(async word => {
        const printed = async (env: Record<string, string>, ...flags: string[]): Promise<string> => {
          const {stdout, stderr} = await spawnZael([word, ...flags], {env})
          return stdout + stderr
        }
        expect(await printed({FORCE_COLOR: '1'})).toContain(ESCAPE)
        expect(await printed({NO_COLOR: '1'})).not.toContain(ESCAPE)
        expect(await printed({})).not.toContain(ESCAPE)
        expect(await printed({FORCE_COLOR: '1'}, '--no-color')).not.toContain(ESCAPE)
      }),
    )
  })

  it('works from another folder', async () => {
    expect(await spawnZael(['help'], {cwd: tmpdir()})).toEqual(await zael(['help']))
    expect(await zael(['hlep'], {cwd: tmpdir()})).toMatchObject({code: 2})
  })

  it.each(['test', 'development'])("ignores the user's NODE_ENV=%s", async nodeEnv => {
    const env = {NODE_ENV: nodeEnv}
    expect(await spawnZael(['help'], {env})).toEqual(await zael(['help']))
    expect(await spawnZael(['hlep'], {env})).toEqual(await zael(['hlep']))
  })
})
