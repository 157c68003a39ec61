import {spawn} from 'node:child_process'
import {once} from 'node:events'
import {beforeAll, expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {inFlightLevels, storedSlots} from '../../src/lib/insight/holders/in-flight.js'
import {type NamespaceRepository, Repository} from '../../src/lib/repository/repository.js'
import {cleanEnvironment} from '../helpers/run-command.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {tableCli} from './table-cli.js'
import {BIN, type Outcome, spawnZael} from './zael.js'

describeOnEngine('zael acquire with a command', {timeout: 60_000}, () => {
  const table = useTable()
  const repository = new Repository({stack: table.name, transport: table.transport})
  const cli = tableCli(table)
  let namespace: NamespaceRepository

  beforeAll(async () => {
    await repository.namespaces.register('default')
    namespace = await repository.namespace()
    await namespace.setLimits(
      {level: 'resource', resource: 'nightly'},
      parseLimits(['parallel=1/inflight', 'runs=9/day']),
    )
    await namespace.setLimits({level: 'resource', resource: 'other'}, parseLimits(['runs=9/day']))
  })

  const words = (entity: string, resource: string, script: string, ...amounts: string[]) => {
    const command = ['--', process.execPath, '-e', script]
    return ['acquire', entity, resource, ...amounts, ...cli.flags, ...command]
  }
  const acquire = (...args: Parameters<typeof words>): Promise<Outcome> => spawnZael(words(...args))
  const inUse = async (entity: string) => {
    const slots = storedSlots(await namespace.buckets.find(entity, 'nightly'))
    return (await inFlightLevels(namespace, slots))[0]?.inUse
  }

  it('holds a slot until the command ends, passes signals on, and exits like the command', async () => {
    const script = 'process.on("SIGTERM", () => process.exit(7)); setInterval(() => {}, 1000); console.log("started")'
    const args = [BIN, ...words('ci', 'nightly', script, 'runs=1')]
    const child = spawn(process.execPath, args, {env: cleanEnvironment(), stdio: ['ignore', 'pipe', 'inherit']})
    const [first] = await once(child.stdout, 'data')
    expect([String(first), await inUse('ci')]).toEqual(['started\n', 1])
    const refused = await acquire('ci', 'nightly', 'console.log("ran")')
    expect([refused.code, refused.stdout]).toEqual([
      6,
      expect.stringMatching(/^Refused: ci cannot take a slot of nightly/),
    ])
    expect(refused.stderr).toContain('zael why ci nightly')
    expect(refused.stdout).not.toContain('ran')
    const ended = once(child, 'exit')
    child.kill('SIGTERM')
    expect(await ended).toEqual([7, null])
    expect(await inUse('ci')).toBe(0)
  })

  it('prints only the output of the command', async () => {
    const script = 'console.log("out"); console.error("err")'
    expect(await acquire('quiet', 'nightly', script)).toEqual({code: 0, stdout: 'out\n', stderr: 'err\n'})
    expect(await inUse('quiet')).toBe(0)
  })

  it('reports a command that a signal ended as a shell does, and one that cannot start', async () => {
    expect((await acquire('killed', 'nightly', 'process.kill(process.pid, "SIGKILL")')).code).toBe(137)
    expect(await inUse('killed')).toBe(0)
    const missing = await spawnZael([
      'acquire',
      'lost',
      'nightly',
      'runs=1',
      '--json',
      ...cli.flags,
      '--',
      './no-such-job',
    ])
    expect([missing.code, JSON.parse(missing.stdout).error.code]).toEqual([3, 'acquire.command'])
    expect(await cli.tell('bucket show lost')).toMatchObject({
      buckets: [{limits: [{name: 'runs', level: 9}], inFlight: [{inUse: 0}]}],
    })
  })

  it('warns if nothing limits how often the command runs', async () => {
    const outcome = await acquire('ci', 'other', 'process.exit(3)')
    expect([outcome.code, outcome.stderr]).toEqual([3, expect.stringContaining('No in-flight limit applies to ci')])
  })

  it.each([
    {given: ['--dry-run'], command: ['--', 'true']},
    {given: [], command: ['--']},
    {given: [], command: []},
  ])('refuses $given $command', async ({given, command}) => {
    const {code, stdout} = await spawnZael(['acquire', 'ci', 'nightly', ...given, '--json', ...cli.flags, ...command])
    expect([code, JSON.parse(stdout).error.code]).toEqual([2, 'command.usage'])
  })
})
