import {mkdtemp, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterAll, beforeAll, expect, inject, it} from 'vitest'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {engineProxy} from './engine-proxy.js'
import {tableCli} from './table-cli.js'
import {zael} from './zael.js'

const COUNT = 40

describeOnEngine('zael limits apply that a signal stops', () => {
  const cli = tableCli(useTable())
  let folder: string

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'zael-test-'))
  })
  afterAll(() => rm(folder, {recursive: true}))

  /** A manifest with limits for many entities, in a namespace of its own. */
  const manifest = async (name: string): Promise<string> => {
    await cli.tell(`namespace create ${name}`)
    const path = join(folder, `${name}.yaml`)
    const entities = Array.from({length: COUNT}, (_, at) => `  ${name}-${at}: {limits: {rpm: 5/min}}`)
    await writeFile(path, [`namespace: ${name}`, 'entities:', ...entities, ''].join('\n'))
    return path
  }
  /** Runs a command that gets a signal at that request. */
  const stopped = async (args: string[], signal: NodeJS.Signals, isMoment: (operation: string) => boolean) => {
    let isSent = false
    await using proxy = await engineProxy(inject('engineEndpoint'), operation => {
      if (!isSent && isMoment(operation)) {
        isSent = true // a second one would end this process
        process.emit(signal)
      }
      return 'answered'
    })
    return await zael([...args, '--stack', cli.flags[1] ?? '', '--endpoint-url', proxy.endpoint])
  }

  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('by %s ends with %i, says how far it came, and is continued by the next run', async (signal, code) => {
    const path = await manifest(signal.toLowerCase())
    let writes = 0
    const isMoment = (operation: string) => operation === 'TransactWriteItems' && ++writes === COUNT / 4
    const outcome = await stopped(['limits', 'apply', '-f', path, '--yes'], signal, isMoment)
    expect([outcome.code, outcome.stderr]).toEqual([code, ''])
    const [, made] =
      /^Stopped after (\d+) of 40 changes; run the command again to apply the rest$/m.exec(outcome.stdout) ?? []
    const [, left] = /^ {2}not tried +(\d+)$/m.exec(outcome.stdout) ?? []
    expect(Number(made) + Number(left)).toBe(COUNT)
    expect(Number(left)).toBeGreaterThan(0)
    const namespace = signal.toLowerCase()
    expect(await cli.tell(`limits unlock -n ${namespace}`)).toEqual({namespace, lock: null, buckets: null})
    const rest = await cli.tell(`limits apply -f ${path} --yes`)
    expect(rest.result).toMatchObject({outcome: 'complete', created: Number(left)})
  })

  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('by %s while it compares ends with %i and says that nothing was changed', async (signal, code) => {
    const path = await manifest(`early-${signal.toLowerCase()}`)
    const outcome = await stopped(['limits', 'apply', '-f', path, '--yes'], signal, is => is === 'BatchGetItem')
    expect(outcome).toMatchObject({code, stdout: ''})
    expect(outcome.stderr).toContain('Interrupted: nothing was changed.')
    expect((await cli.tell(`limits plan -f ${path}`)).counts.create).toBe(COUNT)
  })
})
