import {afterAll, beforeAll, expect, it} from 'vitest'
import {type AwsProxy, awsProxy, type Intervention, xmlRefusal} from './aws-proxy.js'
import {describeWithPython, emptyMoto, type Moto} from './moto.js'
import {stackUser} from './stack-user.js'

describeWithPython('a deployment in conflict with another', {timeout: 300_000}, () => {
  let moto: Moto
  let proxy: AwsProxy
  let atExecution: Intervention | undefined

  beforeAll(async () => {
    moto = await emptyMoto()
    proxy = await awsProxy(moto.endpoint, ({operation}) => (operation === 'ExecuteChangeSet' ? atExecution : undefined))
  }, 300_000)

  afterAll(async () => {
    await proxy?.[Symbol.asyncDispose]()
  })

  it('reports the shared names when another region has a stack of the same name, and works with other names', async () => {
    await stackUser(moto.endpoint).json('deploy --stack twice --yes')
    const elsewhere = stackUser(moto.endpoint, {AWS_REGION: 'us-east-2'})
    const {code, error} = await elsewhere.fail('deploy --stack twice --yes')
    expect({code, error}).toMatchObject({code: 5, error: {code: 'deploy.name-taken'}})
    expect(error.hint).toContain('--role-name-format "{}-us-east-2" --policy-name-format "{}-us-east-2"')
    // moto does not roll back, so the suggested options are tried in a third region.
    const third = stackUser(moto.endpoint, {AWS_REGION: 'us-west-2'})
    const formats = '--role-name-format {}-us-west-2 --policy-name-format {}-us-west-2'
    expect(await third.json(`deploy --stack twice ${formats} --yes`)).toMatchObject({complete: true})
  })

  // AWS's messages; moto executes both deployments.
  it.each([
    ['ChangeSetNotFound', 'ChangeSet [zael-1] does not exist', 404],
    ['InvalidChangeSetStatus', 'ChangeSet [x] cannot be executed in its current execution status of [OBSOLETE]', 400],
  ])('reports another deployment of the same stack at the same time: %s', async (name, reason, status) => {
    await stackUser(moto.endpoint).json('deploy --stack raced --no-aggregator --yes')
    atExecution = xmlRefusal(name, reason, status)
    const {code, error} = await stackUser(proxy.endpoint).fail(
      'deploy --stack raced --encryption-key aws-managed --yes',
    )
    expect({code, error}).toMatchObject({
      code: 5,
      error: {code: 'deploy.overtaken', message: `Another deployment is changing stack "raced": ${reason}`},
    })
    expect(error.hint).toContain('zael status --stack raced')
  })
})
