import {chmod, mkdtemp, readFile, rm, stat, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterAll, beforeAll, expect, it} from 'vitest'
import {planFileSchema} from '../../src/lib/cli/limits/results.js'
import {Repository} from '../../src/lib/repository/repository.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {tableCli} from './table-cli.js'

const BEFORE = `resources:
  a: {limits: {rpm: 5/min}}
  gone: {limits: {rpm: 5/min}}
entities:
  e: {name: E}
`
const AFTER = `resources:
  # A comment that JSON cannot hold.
  a: {disabled: null, limits: {rpm: 6/min, usd: '$5/month@UTC'}}
  b: {limits: {rpm: '10k@"0 9 * * 1-5",8k'}}
entities:
  e: {name: E2}
`

describeOnEngine('a plan file', () => {
  const table = useTable()
  const cli = tableCli(table)
  let folder: string
  let count = 0

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'zael-test-'))
  })
  afterAll(() => rm(folder, {recursive: true}))

  /** A namespace with `BEFORE`, and a plan for `AFTER`. */
  async function scene(after = 'resources: {a: {limits: {rpm: 6/min}}}\nentities: {e: {name: E2}}\n') {
    const name = `plan-${++count}`
    await cli.tell(`namespace create ${name}`)
    const manifest = async (file: string, text: string) => {
      const path = join(folder, `${name}-${file}`)
      await writeFile(path, `namespace: ${name}\n${text}`)
      return path
    }
    await cli.tell(`limits apply -f ${await manifest('before.yaml', BEFORE)} --yes`)
    const path = await manifest('after.yaml', after)
    const file = join(folder, `${name}.json`)
    const planned = await cli.tell(`limits plan -f ${path} --out ${file}`)
    const namespace = await new Repository({stack: table.name, transport: table.transport}).namespace(name)
    const rateOf = async (resource: string) =>
      (await namespace.configs.get({level: 'resource', resource}))?.limits.map(({capacity}) => capacity)
    return {name, namespace, path, file, planned, rateOf}
  }

  it('holds the reviewed changes, is private, and is applied without the manifest', async () => {
    const {name, path, file, planned, rateOf} = await scene(AFTER.replace(',8k', ''))
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    const content = JSON.parse(await readFile(file, 'utf8'))
    expect(planFileSchema.parse(content)).toEqual(content)
    expect(content).toMatchObject({namespace: name, counts: planned.counts, changes: planned.changes})
    await rm(path)
    const {changes, result} = await cli.tell(`limits apply ${file} --yes`)
    expect([changes, result.outcome]).toEqual([planned.changes, 'complete'])
    expect([await rateOf('a'), await rateOf('gone')]).toEqual([[6, 5_000_000], undefined])
    // A retry, such as in CI, has nothing to do.
    const retried = await cli.tell(`limits apply ${file} --yes`)
    expect([retried.changes, retried.result]).toMatchObject([[], {outcome: 'complete', adopted: 0}])
  })

  it('finishes a killed apply, but refuses other values', async () => {
    const {namespace, file, rateOf} = await scene(AFTER.replace(',8k', ''))
    await namespace.setLimits({level: 'resource', resource: 'b'}, ['rpm=9/min'])
    expect(await cli.fail(`limits apply ${file} --yes`)).toMatchObject({code: 5})
    await namespace.deleteLimits({level: 'resource', resource: 'b'})
    // As killed: the intended scopes are recorded, and some changes are made.
    const {changes} = JSON.parse(await readFile(file, 'utf8'))
    await namespace.setLimits({level: 'resource', resource: 'a'}, ['rpm=6/min', 'usd=$5/month@UTC'])
    const {record, ...seen} = await namespace.provisioner.get()
    await namespace.provisioner.save({...record, resources: ['a', 'b', 'gone']}, {...seen, record})
    const rest = await cli.tell(`limits apply ${file} --yes`)
    expect(rest).toMatchObject({changes: changes.slice(1), result: {outcome: 'complete'}})
    expect([await rateOf('a'), await rateOf('b'), await rateOf('gone')]).toEqual([[6, 5_000_000], [10_000], undefined])
    // Values of others after the apply.
    await namespace.setLimits({level: 'resource', resource: 'b'}, ['rpm=9/min'])
    expect(await cli.fail(`limits apply ${file} --yes`)).toMatchObject({
      code: 5,
      error: {message: expect.stringContaining('resource b: rpm 9/min')},
    })
  })

  it('is applied exactly or not at all: a changed table exits with 5 and names the differences', async () => {
    const {namespace, path, file, rateOf} = await scene()
    await namespace.setLimits({level: 'resource', resource: 'gone'}, ['rpm=7/min'])
    await namespace.entities.update('e', {name: 'Other'})
    const {code, error} = await cli.fail(`limits apply ${file} --yes`)
    expect({code, error}).toMatchObject({
      code: 5,
      error: {
        code: 'manifest.plan-outdated',
        message: expect.stringMatching(
          /^The table has changed since the plan of .*\n {2}~ entity e: name Other → E2 \(the plan expected other values\)\n {2}- resource gone: rpm=7\/min \(the plan expected other values\)$/,
        ),
        hint: expect.stringContaining(`zael limits plan -f ${path} --out FILE`),
      },
    })
    expect([await rateOf('a'), await rateOf('gone'), (await namespace.entities.get('e'))?.name]).toEqual([
      [5],
      [7],
      'Other',
    ])
    expect(await namespace.applyLock.get()).toBeUndefined()
    // Back to the values that the plan saw.
    await namespace.setLimits({level: 'resource', resource: 'gone'}, ['rpm=5/min'])
    await namespace.entities.update('e', {name: 'E'})
    expect((await cli.tell(`limits apply ${file} --yes`)).result).toMatchObject({outcome: 'complete', deleted: 1})
  })

  it('is refused for scopes that the plan found unchanged, and for temporary limits that it would end', async () => {
    const {namespace, file} = await scene()
    const until = new Date(Date.now() + 3_600_000)
    const gone = {level: 'resource', resource: 'gone'} as const
    await namespace.setLimits(gone, ['rpm=9/min'], {until})
    expect(await cli.fail(`limits apply ${file} --yes`)).toMatchObject({code: 5})
    await namespace.endBoosts(gone)
    expect(await cli.tell(`limits apply ${file} --yes --dry-run`)).toMatchObject({counts: {update: 2, delete: 1}})
  })

  it('asks as usual, and belongs to one namespace', async () => {
    const {name, file} = await scene()
    expect(await cli.fail(`limits apply ${file}`)).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
    const text = await readFile(file, 'utf8')
    const other = join(folder, 'other.json')
    await writeFile(other, text.replace(/"namespaceId": "[^"]*"/, '"namespaceId": "AAAAAAAAAAA"'))
    expect(await cli.fail(`limits apply ${other} --yes`)).toMatchObject({
      code: 5,
      error: {code: 'manifest.plan-outdated'},
    })
    await writeFile(other, text.replace('rpm: 6/min', 'rpm: 8/min'))
    expect(await cli.fail(`limits apply ${other} --yes`)).toMatchObject({
      code: 5,
      error: {code: 'manifest.plan-outdated'},
    })
    await writeFile(other, text.replace('rpm: 6/min', 'rpm: 8/min').replace(/,\s*"source": "[^"]*"/, ''))
    expect((await cli.fail(`limits apply ${other} --yes`)).error.hint).toContain('limits plan -f MANIFEST --out FILE')
    await writeFile(other, text.replace('"zaelPlan": 1', '"zaelPlan": 2'))
    expect(await cli.fail(`limits apply ${other} --yes`)).toMatchObject({code: 2, error: {code: 'manifest.plan-file'}})
    expect(await cli.fail(`limits apply ${file} -n ${name}-x`)).toMatchObject({
      code: 2,
      error: {code: 'manifest.namespace'},
    })
  })

  it('replaces an earlier plan file, and no other file', async () => {
    const {path, file} = await scene()
    await chmod(file, 0o644)
    await cli.tell(`limits plan -f ${path} --out ${file}`)
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    const before = await readFile(path, 'utf8')
    for (const existing of [path, folder, '/dev/null']) {
      expect(await cli.fail(`limits plan -f ${path} --out ${existing}`)).toMatchObject({
        error: {code: 'manifest.plan-file'},
      })
    }
    expect(await readFile(path, 'utf8')).toBe(before)
    expect(await cli.fail(`limits apply ${file} -f ${path}`)).toMatchObject({code: 2, error: {code: 'manifest.file'}})
    expect(await cli.fail('limits apply --yes')).toMatchObject({code: 2, error: {code: 'manifest.file'}})
  })

  it('is not needed in CI: plan --exit-code exits with 6 if there are changes', async () => {
    const {path} = await scene()
    expect((await cli.run(`limits plan -f ${path}`)).code).toBe(0)
    expect((await cli.run(`limits plan -f ${path} --exit-code`)).code).toBe(6)
    await cli.tell(`limits apply ${path} --yes`)
    expect((await cli.run(`limits plan -f ${path} --exit-code`)).code).toBe(0)
    expect((await cli.run(`limits plan -f ${path}.missing --exit-code`)).code).toBe(3)
  })
})
