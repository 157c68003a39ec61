import {afterAll, beforeAll, expect, it} from 'vitest'
import {readPrincipal} from '../../src/lib/infra/aws/caller-identity.js'
import {encodeVersion} from '../../src/lib/schema/version-record.js'
import {describeWithPython, type Moto, startMoto} from './moto.js'
import {denial, type RefusingProxy, refusingProxy} from './refusing.js'
import {deploySmallStack, type MotoAccount, openMoto} from './small-stack.js'
import {type StackUser, stackUser} from './stack-user.js'

const MOTO_USER = 'arn:aws:sts::123456789012:user/moto'

describeWithPython('the author of a change', {timeout: 300_000}, () => {
  let moto: Moto
  let account: MotoAccount
  let proxy: RefusingProxy
  let user: StackUser

  beforeAll(async () => {
    moto = await startMoto()
    account = openMoto(moto)
    proxy = await refusingProxy(moto.endpoint)
    // Leads to this machine, but is none of the addresses by which zael tells a local engine from AWS.
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
    await moto?.[Symbol.asyncDispose]()
  })

  const authors = async (entity: string): Promise<(string | null)[]> => {
    const {stdout} = await user.run(`audit list ${entity} --stack audited --json`)
    return JSON.parse(stdout).events.map(({principal}: {principal: string | null}) => principal)
  }

  it('is named in the audit trail, and asked for once', async () => {
    let asked: string[] = []
    let named: (string | null)[] = [null]
    // Nobody waits long for it, so that a busy machine needs another try.
    for (let attempt = 1; named[0] === null && attempt <= 20; attempt++) {
      proxy.takeActions()
      expect((await user.run(`entity create first-${attempt} --stack audited`)).code).toBe(0)
      asked = proxy.takeActions().filter(action => action.startsWith('sts:'))
      named = await authors(`first-${attempt}`)
    }
    expect({asked, named}).toEqual({asked: ['sts:GetCallerIdentity'], named: [MOTO_USER]})
  })

  it('is not asked for by commands that only look', async () => {
    proxy.takeActions()
    for (const command of ['entity list', 'limits list', 'audit list']) await user.run(`${command} --stack audited`)
    expect(proxy.takeActions().filter(action => action.startsWith('sts:'))).toEqual([])
  })

  it('is left out when STS does not tell, and the change is made', async () => {
    const {code} = await proxy.during(
      (action, request) => (action.startsWith('sts:') ? denial(request) : undefined),
      () => user.run('entity create second --stack audited'),
    )
    expect(code).toBe(0)
    expect(await authors('second')).toEqual([null])
  })

  it('is left out on a local engine, without asking', async () => {
    const near = stackUser(proxy.endpoint)
    proxy.takeActions()
    expect((await near.run('entity create third --stack audited')).code).toBe(0)
    expect(proxy.takeActions().filter(action => action.startsWith('sts:'))).toEqual([])
    expect(await authors('third')).toEqual([null])
  })

  it('is not waited for for long', async () => {
    expect(await readPrincipal(account.aws, 60_000)).toBe(MOTO_USER)
    expect(await readPrincipal(account.aws, 0)).toBeUndefined()
  })
})
