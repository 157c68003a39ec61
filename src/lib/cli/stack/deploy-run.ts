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

/** How to go about it. */
export interface DeployManner {
  readonly yes: boolean
  readonly dryRun: boolean
  readonly wait: boolean
  /** Flags that lead to the same stack, for commands that are recommended. */
  readonly flags: string
  readonly log: (text: string) => void
  readonly logToStderr: (text: string) => void
}

/** A deployment with questions before it and events on stderr during it. */
export async function deployWithConsent(
  aws: Aws,
  table: Table,
  request: DeployRequest,
  manner: DeployManner,
): Promise<{plan: DeployPlan; finished: FinishedStack | undefined}> {
  const {log, yes, dryRun, flags} = manner
  const {stack} = request
  const [{planDeploy}, {discardChangeSet}, {startChanges, followChanges, finishStack}] = await Promise.all([
    import('../../infra/deploy/plan.js'),
    import('../../infra/deploy/change-set.js'),
    import('../../infra/deploy/deploy.js'),
  ])
  const makePlan = () =>
    interruptible(signal => planDeploy(aws, table, request, {sleep: sleepMs, signal}), interruptedEarly)

  let plan = await makePlan()
  log(deployPlanLines(plan).join('\n'))
  if (plan.action === 'recreate' && !dryRun) {
    await removeFailed(aws, table, plan, manner)
    plan = await makePlan()
    log(deployPlanLines(plan).join('\n'))
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
    // What went wrong before is worth more than what goes wrong now.
    if (changeSet) await discardChangeSet(aws, changeSet).catch(() => {})
    throw error
  }
  // Without changes there is nothing to wait for.
  if (!manner.wait && changeSet) return {plan, finished: undefined}
  const watcher = watcherOf(manner)
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
      goesOn: `with stack "${stack}"`,
      hint: lateHint(flags),
      stack,
    })
  })
}

/** What a failed first deployment left stands in the way of the next; it has no data in it. */
async function removeFailed(aws: Aws, table: Table, plan: DeployPlan, manner: DeployManner): Promise<void> {
  const {stack, stackId, hasEmptyTable} = plan
  const [{deleteStack, deleteTable}, {hasEmptyLeftover}] = await Promise.all([
    import('../../infra/delete/delete.js'),
    import('../../infra/deploy/plan.js'),
  ])
  const left = hasEmptyTable ? ` and its empty table "${table.name}"` : ''
  await confirm(`This deletes what is left of the failed stack "${stack}"${left}, and creates it anew`, {
    yes: manner.yes,
  })
  const hint = 'Run the same command again when it is gone.'
  await interruptible(
    async signal => {
      const waiting = {sleep: sleepMs, signal}
      await deleteStack(aws, {name: stack, id: stackId ?? stack}, watcherOf(manner), waiting)
      // Looked at once more: somebody may have found the table meanwhile.
      if (hasEmptyTable && (await hasEmptyLeftover(table))) await deleteTable(table, waiting)
    },
    () =>
      new ZaelError('interrupted', 'deploy.interrupted', `Interrupted: CloudFormation goes on deleting "${stack}".`, {
        hint,
      }),
  ).catch(error => {
    throw outOfSight(error, {code: 'deploy.out-of-sight', goesOn: `deleting "${stack}"`, hint, stack})
  })
}

/** Everything that happens meanwhile goes to stderr. */
function watcherOf({logToStderr}: DeployManner): DeployWatcher {
  return {
    onEvent: event => logToStderr(eventLines(event).join('\n')),
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

/** CloudFormation knows nothing of our Ctrl-C. */
function interruptedLate({stack, changeSet}: DeployPlan, flags: string): ZaelError {
  const said = changeSet
    ? `Interrupted: CloudFormation goes on with stack "${stack}" by itself.`
    : `Interrupted: stack "${stack}" may lack its code or its default namespace.`
  return new ZaelError('interrupted', 'deploy.interrupted', said, {
    hint: lateHint(flags),
    details: {stack},
  })
}

const lateHint = (flags: string): string =>
  `Look how it is doing with: zael status${flags}; run the same command again when it is done, to finish.`
