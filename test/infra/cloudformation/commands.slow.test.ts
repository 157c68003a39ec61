import {randomUUID} from 'node:crypto'
import {afterAll, beforeAll, expect, it} from 'vitest'
import {stackUser} from '../../aws/stack-user.js'
import {quotedOutput} from '../../docs/quoted-output.js'
import {describeOnEngine} from '../../helpers/table.js'
import {useDeployer} from './deployer.js'

describeOnEngine('repairing and redeploying, on the command line', () => {
  const name = `back-${randomUUID()}`.slice(0, 30)
  const deployer = useDeployer([name])
  const user = () => stackUser(deployer.server.endpoint)
  const run = async (command: string) => {
    const {code, stdout, stderr} = await user().run(command)
    return {code, stderr, stdout: stdout.replaceAll(name, 'STACK').replace(/about [\d,]+ items?/, 'about N items')}
  }

  beforeAll(async () => {
    await user().json(`deploy --stack ${name} --yes`)
    await user().run(`namespace create acme --stack ${name}`)
  }, 60_000)
  afterAll(async () => {
    await user().run(`delete --stack ${name} --delete-table --confirm ${name}`)
  })

  it('status --drift reports no differences and exits with 0', async () => {
    const {code, stdout} = await run(`status --stack ${name} --drift`)
    expect(stdout).toMatch(/\n {2}drift +none: all resources match the template\n/)
    expect(code).toBe(0)
  })

  it('status --drift reports differences and exits with 6; deploy --repair reverts them', async () => {
    await deployer.server.cloudFormation.account.remove('AWS::CloudWatch::Alarm', `${name}-aggregator-errors`)
    const {code, stdout} = await run(`status --stack ${name} --drift`)
    expect(stdout).toContain('\nDrift\n  AggregatorErrorAlarm STACK-aggregator-errors (CloudWatch Alarm): deleted\n')
    expect(stdout).toContain('    Try: zael deploy --stack STACK --repair\n')
    expect(code).toBe(6)
    const shown = await run(`deploy --stack ${name} --repair --dry-run`)
    expect(shown.stdout).toContain(
      '  + AggregatorErrorAlarm STACK-aggregator-errors (CloudWatch Alarm): was deleted and is recreated',
    )
    expect(await user().json(`deploy --stack ${name} --repair --yes`)).toMatchObject({repairs: true, complete: true})
    expect((await user().json(`status --stack ${name} --drift`)).drift).toEqual([])
  })

  it('deploy reports that a service role was not set when nothing else changes', async () => {
    const role = 'arn:aws:iam::123456789012:role/cloudformation'
    const {code, stdout, stderr} = await user().run(
      `deploy --stack ${name} --cloudformation-role ${role} --dry-run --json`,
    )
    expect({code, result: JSON.parse(stdout)}).toMatchObject({
      code: 0,
      result: {action: 'none', cloudFormationRole: null},
    })
    expect(stderr).toContain('The CloudFormation role was not set')
  })

  it('deploy after delete plans to adopt the table, and asks', async () => {
    await user().json(`delete --stack ${name} --confirm ${name}`)
    deployer.server.takeCalls()
    const planned = await run(`deploy --stack ${name} --no-dashboard --dry-run`)
    const [title, adopts, archive, table, more] = quotedOutput('operations.md', 'zael deploy --stack prod')
    const lines = planned.stdout.split('\n').filter(line => !line.startsWith('  dashboard: '))
    const printed = lines.map(line => line.replaceAll('STACK', 'prod'))
    // DynamoDB counts items some hours late; an engine of the tests may count none.
    expect(printed[1]).toMatch(/^ {2}adopts table prod and keeps (its|about N) items$/)
    expect(adopts?.replace('1,234', 'N')).toBe('  adopts table prod and keeps about N items')
    expect(archive).toBe(printed[2]?.replace(/bucket-\w+/, 'bucket-1a2b3c4d5e6f'))
    expect([title, table, more]).toEqual([printed[0], printed[3], '  + …'])
    expect(printed[4]).toMatch(/^ {2}\+ /)
    expect(planned.stdout).toMatch(/\n1 to import, \d+ to add, 0 to change, 0 to replace, 0 to remove\n$/)
    const asked = await run(`deploy --stack ${name}`)
    expect(asked).toMatchObject({code: 2, stderr: expect.stringContaining('and adopts its table')})
    expect(deployer.server.takeCalls()).not.toContain('ExecuteChangeSet')
    expect(deployer.server.cloudFormation.stack(name)).toBeUndefined()

    const adopted = await user().json(`deploy --stack ${name} --yes`)
    expect(adopted).toMatchObject({
      action: 'create',
      complete: true,
      adopts: {table: name},
      defaultNamespaceCreated: false,
    })
    const {stdout} = await user().run(`namespace list --stack ${name} --json`)
    expect(JSON.parse(stdout).namespaces.map((each: {name: string}) => each.name)).toEqual(['acme', 'default'])
  })
})
