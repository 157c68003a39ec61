import {spawn} from 'node:child_process'
import {once} from 'node:events'
import {mkdtemp, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {text} from 'node:stream/consumers'
import {afterAll, beforeAll, expect, inject, it} from 'vitest'
import {parseLimit} from '../../src/lib/core/limits/limit-text.js'
import {type NamespaceRepository, Repository} from '../../src/lib/repository/repository.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {engineProxy} from './engine-proxy.js'
import {schemaProblems} from './schemas.js'
import {tableCli} from './table-cli.js'
import {BIN, zael} from './zael.js'

/** Enough that a run can be stopped in the middle. */
const MANY = 400

describeOnEngine('a limits manifest', () => {
  const table = useTable()
  const repository = new Repository({stack: table.name, transport: table.transport})
  const cli = tableCli(table)
  let namespace: NamespaceRepository
  let folder = ''

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'zael-manifest-'))
    await repository.namespaces.registerMany(['default', 'acme'])
    namespace = await repository.namespace('acme')
  })

  afterAll(async () => {
    await rm(folder, {recursive: true})
  })

  const file = async (name: string, ...lines: string[]): Promise<string> => {
    const path = join(folder, name)
    await writeFile(path, `${lines.join('\n')}\n`)
    return path
  }

  const SYSTEM = 'system: {on_unavailable: allow, limits: {rpm: 60/min}}'
  const RESOURCE = 'resources: {gpt-4: {limits: {rpm: 100/min, tpm: 20k/min}}}'
  const TEAM = 'entities: {team-1: {}, user-1: {parent: team-1, cascade: true}}'

  it('is planned, applied, found unchanged, and restored after drift', async () => {
    const path = await file('limits.yaml', 'namespace: acme', SYSTEM, RESOURCE, TEAM)
    const planned = await cli.show(`limits plan -f ${path}`, 80)
    expect(planned).toMatchInlineSnapshot(`
      "Changes in namespace acme
        + the system: rpm=60/min, on unavailable (none) → allow
        + resource gpt-4: rpm=100/min, tpm=20k/min
        + entity team-1: a new record
        + entity user-1: parent team-1, cascade true
      4 to create, 0 to update, 0 to delete, 0 unchanged
      "
    `)
    expect(await cli.show(`limits apply -f ${path} --dry-run`, 120)).toBe(planned)
    expect(await namespace.configs.resources()).toEqual([])

    const applied = await cli.tell(`limits apply -f ${path}`)
    expect(applied).toMatchObject({namespace: 'acme', result: {outcome: 'complete', created: 4, failures: []}})
    expect((await namespace.configs.resources()).length).toBe(1)
    expect((await namespace.entities.get('user-1'))?.parent).toBe('team-1')

    expect(await cli.show(`limits plan -f ${path}`, 80)).toBe('No changes in namespace acme\n')
    expect(await cli.tell(`limits plan -f ${path}`)).toMatchObject({changes: [], counts: {create: 0, update: 0}})
    expect(await cli.tell(`limits diff -f ${path}`)).toEqual({
      namespace: 'acme',
      drift: false,
      differences: [],
      boosts: [],
      unlisted: 0,
    })

    await namespace.setLimits({level: 'resource', resource: 'gpt-4'}, [parseLimit('rpm=1/min')])
    const drift = await cli.run(`limits diff -f ${path}`)
    expect(drift).toEqual({
      code: 6,
      stderr: '',
      stdout: 'Drift in namespace acme: table → manifest\n' + '  changed  ~ resource gpt-4: rpm 1/min → 100/min\n',
    })
    const output = await cli.run(`limits diff -f ${path} --json`)
    expect(output.code).toBe(6)
    expect(schemaProblems('limits diff', JSON.parse(output.stdout))).toEqual([])
    expect(await cli.fail(`limits apply -f ${path}`)).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
    expect(await cli.tell(`limits apply -f ${path} --yes`)).toMatchObject({result: {updated: 1}})

    // Limits that the file no longer states are deleted after confirmation.
    const less = await file('less.yaml', 'namespace: acme', SYSTEM, TEAM)
    expect(await cli.fail(`limits apply -f ${less}`)).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
    expect((await namespace.configs.resources()).length).toBe(1)
    expect(await cli.tell(`limits apply -f ${less} --yes`)).toMatchObject({result: {deleted: 1}})
    expect(await namespace.configs.resources()).toEqual([])
  })

  it('is exported as YAML and as JSON that can be applied', async () => {
    await namespace.setLimits({level: 'resource', resource: 'claude'}, [parseLimit('rpm=7/sec:50')])
    const {stdout, code} = await cli.run('limits export --namespace acme')
    expect(code).toBe(0)
    expect(stdout).toContain('namespace: acme\n')
    expect(stdout).toContain('rpm: 7/sec:50')
    const exported = await file('exported.yaml', stdout)
    expect(await cli.tell(`limits plan -f ${exported}`)).toMatchObject({changes: []})
    const json = await cli.tell('limits export --namespace acme')
    const asJson = await file('exported.json', JSON.stringify(json))
    expect(await cli.tell(`limits plan -f ${asJson}`)).toMatchObject({changes: []})
    const valid = await zael(['limits', 'validate', '-f', asJson, '--json'])
    expect(valid).toMatchObject({code: 0, stderr: ''})
    expect(schemaProblems('limits validate', JSON.parse(valid.stdout))).toEqual([])
  })

  it('is refused with line and column if it is invalid', async () => {
    const bad = await file('bad.yaml', 'namespace: acme', 'resourcs: {}', 'resources: {gpt-4: {limits: {rpm: fast}}}')
    for (const command of ['validate', 'plan', 'apply', 'diff']) {
      const flags = command === 'validate' ? [] : cli.flags
      const {code, stdout, stderr} = await zael(['limits', command, '-f', bad, ...flags])
      expect({code, stdout}).toEqual({code: 2, stdout: ''})
      expect(stderr).toContain(`${bad}:2:1 `)
      expect(stderr).toContain(`${bad}:3:`)
    }
  })

  it('is reported as missing, or as naming a missing namespace', async () => {
    const {code, stderr} = await zael(['limits', 'validate', '-f', join(folder, 'none.yaml')])
    expect({code, stderr}).toEqual({code: 3, stderr: expect.stringContaining('none.yaml does not exist.')})
    const elsewhere = await file('elsewhere.yaml', 'namespace: acmee', RESOURCE)
    expect(await cli.fail(`limits plan -f ${elsewhere}`)).toMatchObject({
      code: 3,
      error: {
        code: 'namespace.missing',
        hint: expect.stringMatching(/^Did you mean "acme"\? To create a new one: zael namespace create /),
      },
    })
    expect(await cli.fail('limits export --namespace acmee')).toMatchObject({code: 3})
  })

  it('is stopped by Ctrl-C with 130, and completed by a second run', async () => {
    const many = Array.from({length: MANY}, (_, at) => `  user-${at}: {limits: {rpm: 5/min}}`)
    await repository.namespaces.register('crowd')
    const crowd = await repository.namespace('crowd')
    const path = await file('crowd.yaml', 'namespace: crowd', 'entities:', ...many)
    let writes = 0
    await using proxy = await engineProxy(inject('engineEndpoint'), operation => {
      // Counts writes to find the middle: polling the table may be too late.
      if (operation === 'TransactWriteItems' && ++writes === MANY / 4) child.kill('SIGINT')
      return 'answered'
    })
    const flags = ['--stack', table.name, '--endpoint-url', proxy.endpoint]
    const child = spawn(process.execPath, [BIN, 'limits', 'apply', '-f', path, ...flags], {
      env: {PATH: process.env.PATH, HOME: folder},
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const said = text(child.stdout)
    const ended = once(child, 'exit')
    expect(await ended).toEqual([130, null])
    const done = (await crowd.configs.entities('_default_')).records.length
    expect(await said).toContain(`Stopped after ${done} of ${MANY} changes; run the command again to apply the rest`)
    expect(done).toBeLessThan(MANY)
    const rest = await cli.tell(`limits apply -f ${path}`)
    expect(rest.result).toMatchObject({outcome: 'complete', created: MANY - done})
    expect((await crowd.configs.entities('_default_')).records).toHaveLength(MANY)
  })
})
