import {hostname, userInfo} from 'node:os'
import {afterAll, beforeAll, expect, it} from 'vitest'
import {readPrincipal} from '../../src/lib/infra/aws/clients.js'
import {encodeVersion} from '../../src/lib/schema/version-record.js'
import {denial, type IamProxy, iamProxy} from './iam-proxy.js'
import {describeWithPython, emptyMoto, type Moto} from './moto.js'
import {deploySmallStack, type MotoAccount, openMoto} from './small-stack.js'
import {type StackUser, stackUser} from './stack-user.js'

const MOTO_USER = 'arn:aws:sts::123456789012:user/moto'

const USER = `${userInfo().username}@${hostname()}`

describeWithPython('the author of a change', {timeout: 300_000}, () => {
  let moto: Moto
  let account: MotoAccount
  let proxy: IamProxy
  let user: StackUser

  beforeAll(async () => {
    moto = await emptyMoto()
    account = openMoto(moto)
    proxy = await iamProxy(moto.endpoint)
    // Reaches this machine, but zael does not take this address for a local engine.
    user = stackUser(proxy.endpoint.replace('127.0.0.1', '0.0.0.0'))
    await deploySmallStack(account, {name: 'audited', owner: 'zael'})
    const version = {schemaVersion: '0.9.0', lambdaVersion: undefined, clientMinVersion: '0.0.0'}
    const Item = encodeVersion({...version, updatedAt: '2026-01-01T00:00:00Z', updatedBy: 'zael:0.1.0'})
    await account.transport.send('PutItem', {TableName: 'audited', Item})
    await user.run('namespace create default --stack audited')
  }, 300_000)

  afterAll(async () => {
    await proxy?.[Symbol.asyncDispose]()
    await account?.[Symbol.asyncDispose]()
  })

  const authors = async (entity: string): Promise<(string | null)[]> => {
    const {stdout} = await user.run(`audit list ${entity} --stack audited --json`)
    return JSON.parse(stdout).events.map(({principal}: {principal: string | null}) => principal)
  }

  it('is named in the audit trail, and read once', async () => {
    let calls: string[] = []
    let named: (string | null)[] = []
    // The time limit is short: a busy machine may need another attempt.
    for (let attempt = 1; named[0] !== MOTO_USER && attempt <= 20; attempt++) {
      proxy.takeActions()
      expect((await user.run(`entity create first-${attempt} --stack audited`)).code).toBe(0)
      calls = proxy.takeActions().filter(action => action.startsWith('sts:'))
      named = await authors(`first-${attempt}`)
    }
    expect({calls, named}).toEqual({calls: ['sts:GetCallerIdentity'], named: [MOTO_USER]})
  })

  it('is not read by commands that only read', async () => {
    proxy.takeActions()
    for (const command of ['entity list', 'limits list', 'audit list']) await user.run(`${command} --stack audited`)
    expect(proxy.takeActions().filter(action => action.startsWith('sts:'))).toEqual([])
  })

  it('is the user and host when STS refuses, and the change is made', async () => {
    const {code} = await proxy.during(
      (action, request) => (action.startsWith('sts:') ? denial(request) : undefined),
      () => user.run('entity create second --stack audited'),
    )
    expect(code).toBe(0)
    expect(await authors('second')).toEqual([USER])
  })

  it('is the user and host on a local engine, without a request', async () => {
    const localUser = stackUser(proxy.endpoint)
    proxy.takeActions()
    expect((await localUser.run('entity create third --stack audited')).code).toBe(0)
    expect(proxy.takeActions().filter(action => action.startsWith('sts:'))).toEqual([])
    expect(await authors('third')).toEqual([USER])
  })

  it('is read with a time limit', async () => {
    expect(await readPrincipal(account.aws, 60_000)).toBe(MOTO_USER)
    expect(await readPrincipal(account.aws, 0)).toBeUndefined()
  })
})
