import {afterAll, beforeAll, describe, expect, inject, it} from 'vitest'
import {findEngines} from '../../src/lib/local/engines/find.js'
import {LocalUser} from './local-stack.js'
import {schemaProblems} from './schemas.js'
import {zael} from './zael.js'

const canRun = (await findEngines()).some(({problem}) => problem === undefined)

describe.skipIf(!canRun)('status and doctor of the local stack', {timeout: 300_000}, () => {
  let user: LocalUser

  beforeAll(async () => {
    user = await LocalUser.create()
  })

  afterAll(() => user.leave())

  const run = (command: string) => zael(command.split(' '), {env: {...user.env, NO_COLOR: '1'}})

  it('report that it is not running, with their own exit codes', async () => {
    const status = await run('status --stack local --json')
    expect(status.code).toBe(6)
    expect(JSON.parse(status.stdout)).toMatchObject({
      error: {code: 'local.not-running', hint: expect.stringMatching(/^zael local up/)},
    })
    const doctor = await run('doctor --stack local')
    expect(doctor.code).toBe(6)
    expect(doctor.stdout).toMatch(
      /fail {2}endpoint +The local stack is not running \(looked in .+\)\.\n +Try: zael local up, or set ZAEL_DATA_DIR/,
    )
  })

  it('show the table, its layout and the supervisor', async () => {
    await user.tell('up --in-memory')
    const {code, stdout} = await run('status --stack local --json')
    expect(code).toBe(0)
    const result = JSON.parse(stdout)
    expect(schemaProblems('status', result)).toEqual([])
    expect(result).toMatchObject({
      healthy: true,
      region: null,
      table: {stream: 'NEW_AND_OLD_IMAGES', expiry: true},
      versions: {schemaVersion: '0.9.0', migrationDue: false},
      local: {engineRestarts: 0, aggregator: {lastError: null}},
    })
    // By its address as well, as `zael local env` gives it.
    const at = async (endpoint: string) => {
      return JSON.parse((await run(`status --stack local --endpoint-url ${endpoint} --json`)).stdout)
    }
    expect((await at(`${result.local.endpoint}/`)).local).toMatchObject({engineRestarts: 0})
    const doctor = await run('doctor --stack local --json')
    expect(doctor.code).toBe(0)
    const {checks} = JSON.parse(doctor.stdout) as {checks: {name: string; state: string; message: string}[]}
    // How fast it answers is a matter of this machine.
    const [endpoint] = checks.filter(({name}) => name === 'endpoint')
    expect(endpoint?.message).toContain(' responds in ')
    expect(checks.filter(check => check !== endpoint && check.state !== 'ok')).toEqual([])
  })

  it('suggest --stack local when no stack is named, instead of using AWS', async () => {
    const {code, stderr} = await run('entity list')
    expect(code).not.toBe(0)
    expect(stderr).toContain(
      'Hint: You did not name a stack, so zael used "zae-limiter". For the local stack, add --stack local',
    )
    const named = await run('entity list --stack prod')
    expect(named.stderr).not.toContain('--stack local')
  })

  it('refer from delete to zael local down', async () => {
    const {code, stderr} = await run('delete --stack local --confirm local --delete-table')
    expect({code, stderr}).toMatchObject({code: 2, stderr: expect.stringContaining('zael local down --purge')})
  })

  it('ignore a stack called local on another engine', async () => {
    const {code, stderr} = await run(`delete --stack local --endpoint-url ${inject('engineEndpoint')} --confirm local`)
    expect({code, stderr}).toMatchObject({code: 3, stderr: expect.stringContaining('Stack "local" not found')})
  })
})
