import {mkdtemp, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterAll, beforeAll, expect, inject, it} from 'vitest'
import type {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {Repository} from '../../src/lib/repository/repository.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {engineProxy} from './engine-proxy.js'
import {tableCli} from './table-cli.js'
import {BIN, run, zael} from './zael.js'

describeOnEngine('zael limits apply beside other clients', () => {
  const table = useTable()
  const cli = tableCli(table)
  let folder: string

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'zael-test-'))
  })
  afterAll(() => rm(folder, {recursive: true}))

  /** A new namespace, and a manifest for it with the limit `rpm` of the given resources. */
  async function scene(name: string) {
    await cli.tell(`namespace create ${name}`)
    const namespace = await new Repository({stack: table.name, transport: table.transport}).namespace(name)
    const write = async (rates: Readonly<Record<string, string>>): Promise<string> => {
      const path = join(folder, `${name}-${Object.values(rates).join('-').replaceAll('/', '')}.yaml`)
      const lines = Object.entries(rates).map(([resource, rate]) => `  ${resource}: {limits: {rpm: ${rate}}}`)
      await writeFile(path, [`namespace: ${name}`, 'resources:', ...lines, ''].join('\n'))
      return path
    }
    return {namespace, write}
  }

  const rateOf = async ({configs}: NamespaceRepository, resource: string): Promise<number | undefined> =>
    (await configs.get({level: 'resource', resource}))?.limits[0]?.capacity

  it('exits with 5 and names the holder while another run has the lock, and changes nothing', async () => {
    const {namespace, write} = await scene('held')
    const path = await write({a: '5/min'})
    const lock = await namespace.applyLock.take({owner: 'ada@laptop (process 7)'})
    const {code, error} = await cli.fail(`limits apply -f ${path} --yes`)
    expect({code, error}).toMatchObject({
      code: 5,
      error: {
        code: 'manifest.locked',
        message: expect.stringMatching(
          /^ada@laptop \(process 7\) has been applying a manifest to this namespace since 2.*Z\.$/,
        ),
        hint: expect.stringContaining('--wait 60s'),
        details: {holder: 'ada@laptop (process 7)'},
      },
    })
    expect(await rateOf(namespace, 'a')).toBeUndefined()
    expect((await cli.tell(`limits apply -f ${path} --dry-run`)).counts.create).toBe(1)
    expect(await cli.fail(`limits apply -f ${path} --yes --wait 1ms`)).toMatchObject({code: 5})
    setTimeout(() => void lock.abandon(), 50)
    expect((await cli.tell(`limits apply -f ${path} --yes --wait 60s`)).result.outcome).toBe('complete')
    expect(await namespace.applyLock.get()).toBeUndefined()
  })

  it('is unlocked by `limits unlock`, which shows the holder and asks', async () => {
    const {namespace} = await scene('stuck')
    expect(await cli.tell('limits unlock -n stuck')).toEqual({namespace: 'stuck', lock: null, buckets: null})
    const lock = await namespace.applyLock.take({owner: 'ada@laptop (process 7)'})
    expect(await cli.fail('limits unlock -n stuck')).toMatchObject({
      code: 2,
      error: {
        code: 'confirm.needed',
        message: expect.stringMatching(
          /^ada@laptop \(process 7\) has locked namespace stuck since .*The lock expires in \d+ s/,
        ),
      },
    })
    expect(await cli.tell('limits unlock -n stuck --yes')).toMatchObject({lock: {holder: 'ada@laptop (process 7)'}})
    await expect(lock.save({})).rejects.toMatchObject({code: 'manifest.lock-lost'})
    await lock.abandon()
    expect((await cli.run('limits unlock -n stuck')).stdout).toBe('Namespace stuck is not locked\n')
  })

  it('finishes its changes although the reader of its output has left', async () => {
    const {namespace, write} = await scene('piped')
    const rates = Object.fromEntries(Array.from({length: 40}, (_, at) => [`r${at}`, '5/min']))
    const path = await write(rates)
    const words = `limits apply -f ${path} --yes ${cli.flags.join(' ')}`
    const pipe = `{ "${process.execPath}" "${BIN}" ${words}; echo $? >&2; } | true`
    expect((await run('bash', ['-c', pipe], {})).stderr).toBe('0\n')
    expect(await rateOf(namespace, 'r39')).toBe(5)
    expect(await namespace.applyLock.get()).toBeUndefined()
  })

  it('releases the lock when it fails, when it is declined, and when a signal stops it', async () => {
    const {namespace, write} = await scene('released')
    await cli.tell(`limits apply -f ${await write({a: '5/min'})} --yes`)
    const path = await write({a: '6/min'})
    expect(await cli.fail(`limits apply -f ${path}`)).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
    expect(await namespace.applyLock.get()).toBeUndefined()
    let isSent = false
    await using proxy = await engineProxy(inject('engineEndpoint'), operation => {
      if (!isSent && operation === 'BatchGetItem') {
        isSent = true
        process.emit('SIGTERM')
      }
      return 'answered'
    })
    const flags = ['--stack', table.name, '--endpoint-url', proxy.endpoint]
    const {code} = await zael(['limits', 'apply', '-f', path, '--yes', ...flags])
    expect(code).toBe(143)
    expect(await namespace.applyLock.get()).toBeUndefined()
  })

  it('exits with 5 and lists the limits that another client has set meanwhile', async () => {
    const {namespace, write} = await scene('beside')
    await cli.tell(`limits apply -f ${await write({a: '5/min', b: '5/min'})} --yes`)
    const path = await write({a: '6/min', b: '6/min'})
    let writes = 0
    await using proxy = await engineProxy(inject('engineEndpoint'), async operation => {
      const isFirst = operation === 'TransactWriteItems' && writes++ === 0
      if (isFirst) await namespace.setLimits({level: 'resource', resource: 'b'}, ['rpm=7/min'])
      return 'answered' as const
    })
    const flags = ['--stack', table.name, '--endpoint-url', proxy.endpoint]
    const {code, stdout} = await zael(['limits', 'apply', '-f', path, '--yes', ...flags], {env: {NO_COLOR: '1'}})
    expect(code).toBe(5)
    expect(stdout).not.toContain('everything matches')
    expect(stdout).toMatch(/~ resource b: rpm (5\/min → 6\/min: another client|7\/min → 6\/min)/)
    expect(await rateOf(namespace, 'b')).toBe(7)
  })
})
