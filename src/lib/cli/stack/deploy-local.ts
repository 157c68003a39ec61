import {ZaelError} from '../../core/errors.js'
import type {DeployRequest} from '../../infra/deploy/plan.js'
import {readResourceIndex, type Table, untilAborted} from '../../repository/table/table.js'
import type {Interruption} from '../output/interrupt.js'
import {factLines} from '../output/text-table.js'
import {NOTHING_DEPLOYED} from './deploy-presenter.js'
import type {DeployResult} from './results.js'

type LocalDeployment = Readonly<Awaited<ReturnType<typeof deployLocally>>>

type LocalRequest = Pick<
  DeployRequest,
  'options' | 'repair' | 'cloudFormationRole' | 'templateBucket' | 'terminationProtection'
>

export async function deployLocally(
  givenTable: Table,
  {options, repair, cloudFormationRole, templateBucket, terminationProtection}: LocalRequest,
  {
    version,
    dryRun,
    interruption,
  }: {readonly version: string; readonly dryRun: boolean; readonly interruption: Interruption},
) {
  const [{prepareStack}, {requestedResourceIndex}, {checkCloudFormationName}] = await Promise.all([
    import('../../local/supervisor/prepare.js'),
    import('../../infra/stack/options.js'),
    import('../../infra/deploy/errors.js'),
  ])
  const table = untilAborted(givenTable, interruption.signal)
  checkCloudFormationName(table.name)
  const resourceIndex = requestedResourceIndex(options)
  const now = await readResourceIndex(table)
  if (resourceIndex !== undefined && now !== undefined && now !== resourceIndex) throw otherIndex(table.name)
  const withoutEffect = [
    ...Object.keys(options).filter(name => name !== 'resourceIndex'),
    ...(repair ? ['repair'] : []),
    ...(cloudFormationRole === undefined ? [] : ['cloudformationRole']),
    ...(templateBucket === undefined ? [] : ['templateBucket']),
    ...(terminationProtection === undefined ? [] : ['terminationProtection']),
  ]
  const common = {stack: table.name, withoutEffect}
  if (dryRun) return {...common, created: now === undefined}
  const shape = resourceIndex === undefined ? {} : {resourceIndex}
  interruption.failWith(() => interruptedHere(table.name))
  return {...common, ...(await prepareStack(table, version, shape))}
}

export function localLines({stack, created}: LocalDeployment, dryRun: boolean): string[] {
  const title = created
    ? `${dryRun ? 'Would create' : 'Created'} table "${stack}" on the local engine`
    : `Table "${stack}" already exists on the local engine`
  return factLines(title, {
    template: 'the same as on AWS',
    omitted: 'function, alarms, archive and policies: local engines do not support them',
  })
}

export function localJson({stack, created}: LocalDeployment, dryRun: boolean): DeployResult {
  return {...NOTHING_DEPLOYED, stack, target: 'engine', dryRun, action: created ? 'create' : 'none', complete: !dryRun}
}

function interruptedHere(stack: string): ZaelError {
  return new ZaelError('interrupted', 'deploy.interrupted', `Interrupted: the table "${stack}" may be incomplete.`, {
    hint: 'Run the same command again to complete it.',
    details: {stack},
  })
}

function otherIndex(stack: string): ZaelError {
  return new ZaelError(
    'conflict',
    'deploy.index-rebuild',
    `Table "${stack}" already exists with a different resource index.`,
    {
      hint: `Nothing was changed. Delete the table, then deploy again: zael delete --stack ${stack} --delete-table`,
      details: {stack},
    },
  )
}
