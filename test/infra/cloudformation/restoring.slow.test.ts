import {readFile} from 'node:fs/promises'
import {join} from 'node:path'
import {
  DynamoDBClient,
  TagResourceCommand,
  UpdateContinuousBackupsCommand,
  UpdateTableCommand,
  waitUntilTableExists,
} from '@aws-sdk/client-dynamodb'
import {afterAll, expect, it} from 'vitest'
import {stackUser} from '../../aws/stack-user.js'
import {ROOT} from '../../e2e/zael.js'
import {describeOnEngine} from '../../helpers/table.js'
import {expectMigrated} from '../../migrate/expect-migrated.js'
import {expectedOf} from '../../migrate/fixtures/expected.js'
import {makePopulation} from '../../migrate/fixtures/make-population.js'
import {makeOldTable, writeGeneration} from '../../migrate/fixtures/old-table.js'
import {OldTableScene} from '../../migrate/old-table-scene.js'
import {useDeployer} from './deployer.js'
import {TABLE} from './resource-names.js'

/** Releases 0.8 and 0.9: three of the four indexes, buckets and limits in other places. */
const GENERATION = 4

/** The commands of "Restoring a lost table", in order; a command of several lines is one. */
async function documentedCommands(): Promise<string[]> {
  const page = await readFile(join(ROOT, 'docs', 'operations.md'), 'utf8')
  const [, section = ''] = /## Restoring a lost table\n([\s\S]*?)\n### /.exec(page) ?? []
  const joined = section.replace(/ \\\n */g, ' ')
  return [...joined.matchAll(/^ *\$ (.+)$/gm)].map(([, command = '']) => command)
}

// A stack has lost its table; the backup is of the time before a migration. Runs every command of the page in order:
// zael commands by the command line, AWS CLI commands by their API calls.
describeOnEngine('restoring a lost table', {timeout: 120_000}, () => {
  const population = makePopulation({entities: 6, nowMs: Date.now()})
  const scene = new OldTableScene(population)
  const {name} = scene
  const deployer = useDeployer([name])
  afterAll(() => scene.own.close())

  it('restores every entity with its numbers, in a stack of the same name', async () => {
    const {server} = deployer
    const user = stackUser(server.endpoint)
    const client = new DynamoDBClient({endpoint: server.endpoint, region: 'eu-west-1', credentials: IDENTITY})
    const zael = async (command: string, confirmation = '') => {
      const {code, stdout, stderr} = await user.run(
        `${command.replace(/^zael /, '').replace('prod', name)}${confirmation}`,
      )
      if (code !== 0) throw new Error(`${command}: exit ${code}\n${stdout}${stderr}`)
      return stdout
    }
    const steps: Record<string, (command: string) => Promise<unknown>> = {
      // The table is gone, so this one is for others.
      'aws dynamodb restore-table-to-point-in-time --source-table-name prod --target-table-name prod-2 --use-latest-restorable-time':
        async () => {},
      'aws dynamodb list-backups --backup-type SYSTEM --table-name prod': async () => {},
      // Data and indexes come back; stream, expiry, recovery, protection and tags do not.
      'aws dynamodb restore-table-from-backup --target-table-name prod --backup-arn ARN': async () => {
        await makeOldTable({name, transport: scene.own}, GENERATION)
        await writeGeneration({name, transport: scene.own}, GENERATION, population)
      },
      'aws dynamodb wait table-exists --table-name prod': () =>
        waitUntilTableExists({client, maxWaitTime: 60}, {TableName: name}),
      'zael migrate run --stack prod': command => zael(command, ' --yes'),
      'zael migrate verify --stack prod': command => zael(command),
      'aws dynamodb update-continuous-backups --table-name prod --point-in-time-recovery-specification PointInTimeRecoveryEnabled=true,RecoveryPeriodInDays=35':
        () => {
          const PointInTimeRecoverySpecification = {PointInTimeRecoveryEnabled: true, RecoveryPeriodInDays: 35}
          return client.send(new UpdateContinuousBackupsCommand({TableName: name, PointInTimeRecoverySpecification}))
        },
      'aws dynamodb update-table --table-name prod --deletion-protection-enabled': () =>
        client.send(new UpdateTableCommand({TableName: name, DeletionProtectionEnabled: true})),
      'aws dynamodb tag-resource --resource-arn ARN --tags Key=team,Value=platform': () => {
        const ResourceArn = `arn:aws:dynamodb:eu-west-1:123456789012:table/${name}`
        return client.send(new TagResourceCommand({ResourceArn, Tags: [{Key: 'team', Value: 'platform'}]}))
      },
      'zael delete --stack prod': command => zael(command, ` --confirm ${name}`),
      'zael deploy --stack prod': async command => {
        const planned = await zael(`${command} --dry-run`)
        expect(planned).toMatch(/\n {2}adopts table \S+ and keeps .*items?\n/)
        await zael(command, ' --yes')
      },
      'zael status --stack prod --drift': async command => {
        expect(await zael(command)).toMatch(/\n {2}drift +none: all resources match the template\n/)
      },
    }
    expect(await documentedCommands()).toEqual(Object.keys(steps))

    await deployer.deploy(name)
    await server.cloudFormation.account.remove(TABLE, name)
    expect(await user.run(`status --stack ${name}`)).toMatchObject({
      code: 6,
      stdout: expect.stringContaining('docs/operations.md#restoring-a-lost-table'),
    })
    for (const [command, run] of Object.entries(steps)) await run(command)

    expect(server.cloudFormation.stack(name)).toMatchObject({status: 'CREATE_COMPLETE'})
    expect(server.cloudFormation.stack(name)?.resources.get('Table')?.properties).toMatchObject({
      DeletionProtectionEnabled: true,
    })
    await expectMigrated(scene, expectedOf(population, GENERATION))
    client.destroy()
  })
})

const IDENTITY = {accessKeyId: 'testing', secretAccessKey: 'testing'}
