import {afterAll, beforeAll, expect, it} from 'vitest'
import {type AwsProxy, awsProxy, type Meddling, xmlRefusal} from './aws-proxy.js'
import {describeWithPython, type Moto, startMoto} from './moto.js'
import {stackUser} from './stack-user.js'

describeWithPython('a deployment that meets another', {timeout: 300_000}, () => {
  let moto: Moto
  let proxy: AwsProxy
  let atExecution: Meddling | undefined

  beforeAll(async () => {
    moto = await startMoto()
    proxy = await awsProxy(moto.endpoint, ({operation}) => (operation === 'ExecuteChangeSet' ? atExecution : undefined))
  }, 300_000)

  afterAll(async () => {
    await proxy?.[Symbol.asyncDispose]()
    await moto?.[Symbol.asyncDispose]()
  })

  it('of the same name in another region is told of the names that they share, and works with others', async () => {
    await stackUser(moto.endpoint).tell('deploy --stack twice --yes')
    const elsewhere = stackUser(moto.endpoint, {AWS_REGION: 'us-east-2'})
    const {code, error} = await elsewhere.fail('deploy --stack twice --yes')
    expect({code, error}).toMatchObject({code: 5, error: {code: 'deploy.name-taken'}})
    expect(error.hint).toContain('--role-name-format "{}-us-east-2" --policy-name-format "{}-us-east-2"')
    // moto leaves behind what it had made by then, so the remedy is tried in a third region.
    const third = stackUser(moto.endpoint, {AWS_REGION: 'us-west-2'})
    const formats = '--role-name-format {}-us-west-2 --policy-name-format {}-us-west-2'
    expect(await third.tell(`deploy --stack twice ${formats} --yes`)).toMatchObject({complete: true})
  })

  // AWS's words; moto carries out both.
  it.each([
    ['ChangeSetNotFound', 'ChangeSet [zael-1] does not exist', 404],
    ['InvalidChangeSetStatus', 'ChangeSet [x] cannot be executed in its current execution status of [OBSOLETE]', 400],
  ])('of the same stack at the same time is told of it: %s', async (name, said, status) => {
    await stackUser(moto.endpoint).tell('deploy --stack raced --no-aggregator --yes')
    atExecution = xmlRefusal(name, said, status)
    const {code, error} = await stackUser(proxy.endpoint).fail(
      'deploy --stack raced --encryption-key aws-managed --yes',
    )
    expect({code, error}).toMatchObject({
      code: 5,
      error: {code: 'deploy.overtaken', message: `Somebody else is deploying stack "raced": ${said}`},
    })
    expect(error.hint).toContain('zael status --stack raced')
  })
})
