import {expect, inject, it} from 'vitest'
import {encodeVersion} from '../../src/lib/schema/version-record.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {schemaProblems} from './schemas.js'
import {tableCli} from './table-cli.js'
import {zael} from './zael.js'

describeOnEngine('status, list and doctor on a local engine', () => {
  const table = useTable({stream: true})
  const cli = tableCli(table)
  const engine = () => ['--endpoint-url', inject('engineEndpoint')]

  it('status shows the table, and that it has no stack', async () => {
    const result = await cli.tell('status')
    expect(result).toMatchObject({
      stack: table.name,
      region: null,
      healthy: true,
      table: {status: 'ACTIVE', stream: 'NEW_AND_OLD_IMAGES', expiry: true, pointInTimeRecovery: null},
      cloudFormation: null,
      aggregator: null,
      alarms: null,
      unknown: [],
    })
    const {code, stdout} = await cli.run('status')
    expect(code).toBe(0)
    const shown = stdout.replaceAll(table.name, 'STACK').replaceAll(inject('engineEndpoint'), 'ENDPOINT')
    expect(shown).toMatchInlineSnapshot(`
      "Stack STACK, on this machine
        table       active, 0 items, 0 bytes
        indexes     GSI1 all, GSI2 keys only, GSI3 keys only, GSI4 keys only
        safety      deletion protection off, point-in-time recovery unknown
        stream      both images, expiry on
        aggregator  none: usage is not counted
        versions    no version record, no migration pending

      Notes
        The table has no version record yet.
          Try: zael deploy --stack STACK --endpoint-url ENDPOINT

      STACK is healthy
      "
    `)
  })

  it('status exits with 3 for a missing stack, and with 2 for an unknown flag', async () => {
    const {code, stdout} = await zael(['status', '--stack', `${table.name}x`, ...engine(), '--json'])
    expect(code).toBe(3)
    expect(JSON.parse(stdout).error).toMatchObject({code: 'stack.missing', hint: `Did you mean "${table.name}"?`})
    expect(await cli.fail('status --namespace x')).toMatchObject({code: 2})
    for (const command of ['status', 'doctor']) {
      expect(await cli.run(`${command} --output csv`)).toMatchObject({code: 2, stdout: ''})
    }
  })

  it('status exits with 6 for an older layout, and suggests the migration', async () => {
    const record = {
      schemaVersion: '0.8.0',
      lambdaVersion: '0.8.1',
      clientMinVersion: '0.0.0',
      updatedBy: 'client:0.8.1',
    }
    const Item = encodeVersion({...record, updatedAt: '2026-01-01T00:00:00Z'})
    await table.transport.send('PutItem', {TableName: table.name, Item})
    const {code, stdout} = await cli.run('status --json')
    const Key = {PK: Item.PK, SK: Item.SK} as typeof Item
    await table.transport.send('DeleteItem', {TableName: table.name, Key})
    expect(code).toBe(6)
    const result = JSON.parse(stdout)
    expect(schemaProblems('status', result)).toEqual([])
    expect(result).toMatchObject({healthy: false, versions: {schemaVersion: '0.8.0', migrationDue: true}})
    expect(result.findings[0].fix).toContain('zael migrate')
  })

  it('list shows the tables that are stacks', async () => {
    const {code, stdout} = await zael(['list', ...engine(), '--json'])
    expect(code).toBe(0)
    const result = JSON.parse(stdout)
    expect(schemaProblems('list', result)).toEqual([])
    const own = result.stacks.find(({name}: {name: string}) => name === table.name)
    expect(own).toMatchObject({tool: null, region: null, status: 'ACTIVE'})
    const bad = await zael(['list', ...engine(), '--sort', 'nme'])
    expect(bad).toMatchObject({code: 2, stdout: ''})
    expect(bad.stderr).toContain('Did you mean "name"?')
  })

  it('doctor needs no credentials, and exits with 6 if a check fails', async () => {
    const well = await cli.run('doctor --json')
    const result = JSON.parse(well.stdout)
    expect(schemaProblems('doctor', result)).toEqual([])
    expect({code: well.code, fit: result.fit}).toEqual({code: 0, fit: true})
    const missing = await zael(['doctor', '--stack', 'nowhere', ...engine()], {env: {NO_COLOR: '1'}})
    expect(missing.code).toBe(6)
    expect(missing.stdout).toContain('fail  stack         stack "nowhere" not found\n')
    expect(missing.stdout).toMatch(
      /Try: zael list --endpoint-url \S+, or zael deploy --stack nowhere --endpoint-url \S+\n/,
    )
  })

  it('status exits with 6 if the endpoint does not answer', async () => {
    const {code, stdout} = await zael(['status', '--stack', 'x', '--endpoint-url', 'http://127.0.0.1:1', '--json'])
    expect({code, error: JSON.parse(stdout).error}).toMatchObject({code: 6, error: {code: 'aws.unavailable'}})
  })

  it('doctor reports an endpoint that does not answer', async () => {
    const {code, stdout} = await zael(['doctor', '--endpoint-url', 'http://127.0.0.1:1', '--json'])
    expect(code).toBe(6)
    expect(JSON.parse(stdout).checks).toContainEqual(expect.objectContaining({name: 'endpoint', state: 'fail'}))
    expect(await zael(['doctor', '--endpoint-url', 'nonsense'])).toMatchObject({code: 2, stdout: ''})
  })
})

it.each([[[]], [['--region', 'eu-west-1']]])('list reports a missing profile, with %j', async place => {
  const env = {
    AWS_CONFIG_FILE: '/dev/null',
    AWS_SHARED_CREDENTIALS_FILE: '/dev/null',
    AWS_EC2_METADATA_DISABLED: 'true',
  }
  const {code, stderr} = await zael(['list', '--profile', 'nope', ...place], {env})
  expect({code, stderr}).toMatchObject({
    code: 4,
    stderr: expect.stringContaining('AWS profile "nope" not found (--profile).'),
  })
})
