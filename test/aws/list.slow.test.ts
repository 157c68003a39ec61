import {afterAll, beforeAll, expect, it} from 'vitest'
import {schemaProblems} from '../e2e/schemas.js'
import {xmlRefusal} from './aws-proxy.js'
import {denial, type IamProxy, iamProxy} from './iam-proxy.js'
import {describeWithPython, emptyMoto, type Moto} from './moto.js'
import {deploySmallStack, type MotoAccount, openMoto} from './small-stack.js'
import {type StackUser, stackUser} from './stack-user.js'

describeWithPython('zael list', {timeout: 300_000}, () => {
  let moto: Moto
  let proxy: IamProxy
  let user: StackUser
  const accounts: MotoAccount[] = []

  beforeAll(async () => {
    moto = await emptyMoto()
    proxy = await iamProxy(moto.endpoint)
    user = stackUser(proxy.endpoint)
    const ireland = openMoto(moto)
    const virginia = openMoto(moto, 'us-east-1')
    accounts.push(ireland, virginia)
    await deploySmallStack(ireland, {name: 'prod', owner: 'zael'})
    await deploySmallStack(ireland, {name: 'legacy', owner: 'zae-limiter'})
    await deploySmallStack(ireland, {name: 'shop', owner: 'other'})
    await deploySmallStack(ireland, {name: 'ZAEL-old', owner: 'other'})
    await deploySmallStack(virginia, {name: 'prod', owner: 'zael'})
  }, 300_000)

  afterAll(async () => {
    for (const account of accounts) await account[Symbol.asyncDispose]()
    await proxy?.[Symbol.asyncDispose]()
  })

  it('lists the stacks of both tools in the configured region, and no others', async () => {
    const {code, stdout, stderr} = await user.run('list')
    expect({code, stderr}).toEqual({code: 0, stderr: ''})
    expect(stdout.replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, '2026-01-01T00:00:00Z')).toMatchInlineSnapshot(`
      "NAME      TOOL         STATUS           VERSION  CREATED
      ZAEL-old  zae-limiter  create complete  -        2026-01-01T00:00:00Z
      legacy    zae-limiter  create complete  0.1.0    2026-01-01T00:00:00Z
      prod      zael         create complete  0.1.0    2026-01-01T00:00:00Z
      "
    `)
    const {stacks} = await user.json('list')
    expect(stacks).toMatchObject([
      {name: 'ZAEL-old', tool: 'zae-limiter', version: null},
      {name: 'legacy', tool: 'zae-limiter', region: 'eu-west-1', version: '0.1.0', schemaVersion: '0.9.0'},
      {name: 'prod', tool: 'zael', status: 'CREATE_COMPLETE'},
    ])
    expect((await user.run('list --region us-east-1 --output csv --columns name,region')).stdout).toBe(
      'name,region\nprod,us-east-1\n',
    )
    expect((await user.run('list --region us-west-2')).stdout).toBe(
      'No stacks found in this region. Create one: zael deploy\n',
    )
  })

  it('reads all pages', async () => {
    // moto has all stacks on one page, so the proxy adds a token and returns the same page again.
    const result = await proxy.during(
      (action, {body}) => {
        if (action !== 'cloudformation:DescribeStacks') return undefined
        if (!body.includes('NextToken')) return {response: text => withToken(text)}
        return {request: text => text.replace(/&NextToken=[^&]*/, '')}
      },
      () => user.json('list'),
    )
    expect(result.stacks.map(({name}: {name: string}) => name)).toEqual([
      ...['ZAEL-old', 'ZAEL-old', 'legacy', 'legacy', 'prod', 'prod'],
    ])
  })

  it('lists all regions, and names those that refuse', async () => {
    const {code, stdout, stderr} = await proxy.during(
      (_, request) => {
        if (request.region === 'eu-west-3') return denial(request)
        if (request.region === 'af-south-1')
          return xmlRefusal('InvalidClientTokenId', 'The security token is invalid', 403)
        return undefined
      },
      () => user.run('list --all-regions --json'),
    )
    expect(code).toBe(0)
    expect(stderr).toContain('Could not list eu-west-3: Not allowed to list the stacks of eu-west-3')
    const result = JSON.parse(stdout)
    expect(schemaProblems('list', result)).toEqual([])
    const {stacks, refused, notEnabled} = result
    expect(stacks.map(({name, region}: {name: string; region: string}) => `${name} ${region}`)).toEqual([
      'ZAEL-old eu-west-1',
      'legacy eu-west-1',
      'prod eu-west-1',
      'prod us-east-1',
    ])
    expect(refused).toMatchObject([{region: 'eu-west-3', code: 'aws.denied'}])
    expect(notEnabled).toEqual(['af-south-1'])
  })

  it('fails with the exit code of the cause when every region refuses', async () => {
    const denied = await proxy.during(
      (_, request) => denial(request),
      () => user.fail('list --all-regions'),
    )
    expect(denied).toMatchObject({code: 4, error: {code: 'aws.denied'}})
    expect(await user.fail('list --stack prod')).toMatchObject({code: 2})
    expect(await stackUser('http://127.0.0.1:1').fail('list')).toMatchObject({code: 1})
  })

  it('L8 only reads', async () => {
    proxy.takeActions()
    await user.run('list --all-regions')
    expect([...new Set(proxy.takeActions())]).toEqual(['cloudformation:DescribeStacks'])
  })
})

/** The response with a token for another page. */
function withToken(body: string): string {
  return body.replace('</DescribeStacksResult>', '<NextToken>more</NextToken></DescribeStacksResult>')
}
