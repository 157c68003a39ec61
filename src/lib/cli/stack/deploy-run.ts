import {ZaelError} from '../../core/errors.js'
import {sleepMs} from '../../dynamo/retry.js'
import type {Aws} from '../../infra/aws/clients.js'
import type {DeployWatcher, FinishedStack} from '../../infra/deploy/deploy.js'
import type {DeployPlan, DeployRequest} from '../../infra/deploy/plan.js'
import type {Table} from '../../repository/table/table.js'
import {confirm} from '../output/confirm.js'
import {interruptible} from '../output/interrupt.js'
import {deployPlanLines, eventLines} from './deploy-presenter.js'
import {outOfSight} from './out-of-sight.js'

/** How to deploy. */
export interface DeployMode {
  readonly yes: boolean
  readonly dryRun: boolean
  readonly wait: boolean
  /** Flags that select the same stack, for suggested commands. */
  readonly flags: string
  readonly print: (lines: readonly string[]) => void
  readonly logToStderr: (line: string) => void
}

/** Plans a deployment, asks for consent, then deploys and prints its events on stderr. */
export async function deployWithConsent(
  aws: Aws,
  table: Table,
  request: DeployRequest,
  mode: DeployMode,
): Promise<{plan: DeployPlan; finished: FinishedStack | undefined}> {
  const {print, yes, dryRun, flags} = mode
  const {stack} = request
  const [{planDeploy}, {discardChangeSet}, {startChanges, followChanges, finishStack}] = await Promise.all([
    import('../../infra/deploy/plan.js'),
    import('../../infra/deploy/change-set.js'),
    import('../../infra/deploy/deploy.js'),
  ])
  const makePlan = () =>
    interruptible(signal => planDeploy(aws, table, request, {sleep: sleepMs, signal}), interruptedEarly)

  let plan = await makePlan()
  print(deployPlanLines(plan))
  if (plan.action === 'recreate' && !dryRun) {
    await removeFailed(aws, table, plan, mode)
    plan = await makePlan()
    print(deployPlanLines(plan))
  }
  const {changeSet} = plan
  if (dryRun) {
    if (changeSet) await discardChangeSet(aws, changeSet)
    return {plan, finished: undefined}
  }
  const isIdle = plan.action === 'none' && plan.code !== 'new'
  let since: string | undefined
  try {
    if (!isIdle) await confirm(questionFor(plan), {yes})
    since = await startChanges(aws, plan)
  } catch (error) {
    // The first error matters more than one of the clean-up.
    if (changeSet) await discardChangeSet(aws, changeSet).catch(() => {})
    throw error
  }
  // Without changes there is nothing to wait for.
  if (!mode.wait && changeSet) return {plan, finished: undefined}
  const watcher = watcherOf(mode)
  return interruptible(
    async signal => {
      const waiting = {sleep: sleepMs, signal}
      await followChanges(aws, plan, since, watcher, waiting)
      return {plan, finished: await finishStack(aws, table, request, watcher, waiting)}
    },
    () => interruptedLate(plan, flags),
  ).catch(error => {
    throw outOfSight(error, {
      code: 'deploy.out-of-sight',
      continuing: `with stack "${stack}"`,
      hint: lateHint(flags),
      stack,
    })
  })
}

/** Deletes what a failed first deployment left, which would block the next; it contains no data. */
async function removeFailed(aws: Aws, table: Table, plan: DeployPlan, mode: DeployMode): Promise<void> {
  const {stack, stackId, hasEmptyTable} = plan
  const [{deleteStack, deleteTable, unprotectTable}, {readTable}, {hasEmptyLeftover}] = await Promise.all([
    import('../../infra/delete/delete.js'),
    import('../../infra/delete/plan.js'),
    import('../../infra/deploy/plan.js'),
  ])
  // A first deployment with --deletion-protection leaves a table that its rollback could not delete.
  const isProtected = hasEmptyTable && (await readTable(table))?.isProtected === true
  const protection = isProtected ? ', whose deletion protection it turns off' : ''
  const left = hasEmptyTable ? ` and its empty table "${table.name}"${protection}` : ''
  await confirm(`This deletes what is left of the failed stack "${stack}"${left}, then creates it again`, {
    yes: mode.yes,
  })
  const hint = 'Run the same command again when it is deleted.'
  await interruptible(
    async signal => {
      const waiting = {sleep: sleepMs, signal}
      await deleteStack(aws, {name: stack, id: stackId ?? stack}, watcherOf(mode), waiting)
      // Checked again: clients may have written to the table in the meantime.
      if (!hasEmptyTable || !(await hasEmptyLeftover(table))) return
      if (isProtected) await unprotectTable(table, waiting)
      await deleteTable(table, waiting)
    },
    () =>
      new ZaelError(
        'interrupted',
        'deploy.interrupted',
        `Interrupted: CloudFormation continues to delete "${stack}".`,
        {
          hint,
        },
      ),
  ).catch(error => {
    throw outOfSight(error, {code: 'deploy.out-of-sight', continuing: `to delete "${stack}"`, hint, stack})
  })
}

/** Prints events and steps on stderr. */
function watcherOf({logToStderr}: DeployMode): DeployWatcher {
  return {
    onEvent: event => {
      for (const line of eventLines(event)) logToStderr(line)
    },
    onStep: what => logToStderr(`  ${what}`),
  }
}

function questionFor({stack, region, action, changeSet}: DeployPlan): string {
  if (action === 'create') return `This creates stack "${stack}" in ${region}`
  if (action === 'none') return `This uploads new code to the aggregator of "${stack}" in ${region}`
  const replaced = (changeSet?.changes ?? []).filter(change => change.action === 'replace')
  const what = replaced.length === 0 ? '' : ` and replaces ${replaced.map(({logicalId}) => logicalId).join(', ')}`
  return `This changes stack "${stack}" in ${region}${what}`
}

function interruptedEarly(): ZaelError {
  return new ZaelError('interrupted', 'deploy.interrupted', 'Interrupted: nothing was changed.')
}

/** CloudFormation continues after Ctrl-C. */
function interruptedLate({stack, changeSet}: DeployPlan, flags: string): ZaelError {
  const message = changeSet
    ? `Interrupted: CloudFormation continues with stack "${stack}".`
    : `Interrupted: stack "${stack}" may lack its code or its default namespace.`
  return new ZaelError('interrupted', 'deploy.interrupted', message, {
    hint: lateHint(flags),
    details: {stack},
  })
}

const lateHint = (flags: string): string =>
  `Check its state: zael status${flags}. When it is done, run the same command again to finish.`
