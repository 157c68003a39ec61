import {ZaelError} from '../../core/errors.js'
import {Aborted} from '../../dynamo/errors.js'
import {sleepMs} from '../../dynamo/retry.js'
import type {Aws} from '../../infra/aws/clients.js'
import type {DeployWatcher, FinishedStack} from '../../infra/deploy/deploy.js'
import type {DeployPlan, DeployRequest} from '../../infra/deploy/plan.js'
import {type Table, untilAborted} from '../../repository/table/table.js'
import {confirm} from '../output/confirm.js'
import {type Interruption, nothingChanged} from '../output/interrupt.js'
import {deployPlanLines, eventLines, outOfSight} from './deploy-presenter.js'

export interface DeployMode {
  readonly yes: boolean
  readonly dryRun: boolean
  readonly wait: boolean
  readonly interruption: Interruption
  /** Flags that select the same stack, for suggested commands. */
  readonly flags: string
  readonly print: (lines: readonly string[]) => void
  readonly logToStderr: (line: string) => void
}

export async function deployWithConsent(
  aws: Aws,
  table: Table,
  request: DeployRequest,
  mode: DeployMode,
): Promise<{plan: DeployPlan; finished: FinishedStack | undefined}> {
  const {print, yes, dryRun, flags, interruption} = mode
  const {stack} = request
  const {signal} = interruption
  const waiting = {sleep: sleepMs, signal}
  if (request.templateBucket !== undefined)
    interruption.failWith(() => nothingChanged('deploy.interrupted', 'The uploaded template may stay in its bucket.'))
  const [{planDeploy}, {discardAfter, discardChangeSet}, {startChanges, followChanges, finishStack}] =
    await Promise.all([
      import('../../infra/deploy/plan.js'),
      import('../../infra/deploy/change-set.js'),
      import('../../infra/deploy/deploy.js'),
    ])
  let plan = await planDeploy(aws, table, request, waiting)
  print(deployPlanLines(plan))
  let unchanged: string | undefined
  if (plan.action === 'recreate' && !dryRun) {
    unchanged = await removeFailed(aws, table, plan, mode)
    plan = await planDeploy(aws, table, request, waiting)
    print(deployPlanLines(plan))
  }
  const {changeSet} = plan
  if (dryRun) {
    if (changeSet) await discardChangeSet(aws, changeSet)
    if (signal.aborted) throw new Aborted('The preview', false, signal.reason)
    return {plan, finished: undefined}
  }
  const isIdle = plan.action === 'none' && plan.code !== 'new' && plan.terminationProtection === null
  let since: string | undefined
  try {
    if (!isIdle) await confirm(questionFor(plan), {yes, signal, unchanged})
    if (signal.aborted) throw new Aborted('The deployment', false, signal.reason)
    const onSent = () => interruption.failWith(() => interruptedLate(plan, flags, true))
    since = await startChanges(aws, plan, {signal, onSent})
  } catch (error) {
    // When in doubt, keep the change set: CloudFormation may have begun.
    const isInDoubt = error instanceof Aborted && error.maybeApplied
    throw changeSet && !isInDoubt ? await discardAfter(error, aws, changeSet) : error
  }
  interruption.failWith(() => interruptedLate(plan, flags, false))
  // Without changes there is nothing to wait for.
  if (!mode.wait && changeSet) return {plan, finished: undefined}
  const watcher = watcherOf(mode)
  try {
    await followChanges(aws, plan, since, watcher, waiting)
    return {plan, finished: await finishStack(aws, table, {...request, plan}, watcher, waiting)}
  } catch (error) {
    const continuing = `with stack "${stack}"`
    throw outOfSight(error, {code: 'deploy.out-of-sight', continuing, hint: lateHint(flags), stack})
  }
}

/** Deletes leftovers of a failed first deployment: they hold no data and block the next. Returns a description of the change. */
async function removeFailed(aws: Aws, givenTable: Table, plan: DeployPlan, mode: DeployMode): Promise<string> {
  const {signal} = mode.interruption
  const table = untilAborted(givenTable, signal)
  const {stack, stackId, hasEmptyTable} = plan
  const [{deleteStack, deleteTable, unprotectTable}, {readTable}, {hasEmptyLeftover}] = await Promise.all([
    import('../../infra/deploy/delete.js'),
    import('../../infra/deploy/delete-plan.js'),
    import('../../infra/deploy/plan.js'),
  ])
  // A first deployment with --deletion-protection leaves a table that its rollback could not delete.
  const isProtected = hasEmptyTable && (await readTable(table))?.isProtected === true
  const protection = isProtected ? ', after turning off its deletion protection' : ''
  const left = hasEmptyTable ? ` with its empty table "${table.name}"${protection}` : ''
  await confirm(`This deletes the failed stack "${stack}"${left}, then creates the stack again`, {
    yes: mode.yes,
    signal,
  })
  const hint = 'Run the same command again after the deletion.'
  const failWith = (message: string, next = hint) =>
    mode.interruption.failWith(
      () => new ZaelError('interrupted', 'deploy.interrupted', `Interrupted: ${message}`, {hint: next}),
    )
  const waiting = {sleep: sleepMs, signal}
  const watcher = {
    ...watcherOf(mode),
    onStart: () => failWith(`CloudFormation continues to delete "${stack}".`),
  }
  try {
    await deleteStack(aws, {name: stack, id: stackId ?? stack}, watcher, waiting)
    // Checked again: clients may have written to the table in the meantime.
    if (hasEmptyTable && (await hasEmptyLeftover(table))) {
      failWith(`the failed stack "${stack}" is deleted, but its empty table may remain.`)
      if (isProtected) await unprotectTable(table, waiting)
      await deleteTable(table, waiting)
    }
  } catch (error) {
    throw outOfSight(error, {code: 'deploy.out-of-sight', continuing: `to delete "${stack}"`, hint, stack})
  }
  const changed = `the failed stack "${stack}" was deleted; nothing else was changed.`
  failWith(changed, 'Run the same command again.')
  return changed
}

function watcherOf({logToStderr}: DeployMode): DeployWatcher {
  return {
    onEvent: event => {
      for (const line of eventLines(event)) logToStderr(line)
    },
    onStep: what => logToStderr(`  ${what}`),
  }
}

function questionFor({stack, region, action, changeSet, code, adopts, terminationProtection}: DeployPlan): string {
  if (action === 'create') return `This creates stack "${stack}" in ${region}${adopts ? ' and adopts its table' : ''}`
  if (action === 'none' && code !== 'new') {
    const onOff = terminationProtection === true ? 'on' : 'off'
    return `This turns ${onOff} the termination protection of "${stack}" in ${region}`
  }
  if (action === 'none') return `This uploads new code to the aggregator of "${stack}" in ${region}`
  const replaced = (changeSet?.changes ?? []).filter(change => change.action === 'replace')
  const what = replaced.length === 0 ? '' : ` and replaces ${replaced.map(({logicalId}) => logicalId).join(', ')}`
  return `This changes stack "${stack}" in ${region}${what}`
}

function interruptedLate({stack, changeSet}: DeployPlan, flags: string, isInDoubt: boolean): ZaelError {
  const state = isInDoubt
    ? `CloudFormation did not respond and may have begun to change stack "${stack}"`
    : changeSet
      ? `CloudFormation continues with stack "${stack}"`
      : `stack "${stack}" may lack its code or default namespace`
  const options = {hint: lateHint(flags), details: {stack}}
  return new ZaelError('interrupted', 'deploy.interrupted', `Interrupted: ${state}.`, options)
}

const lateHint = (flags: string): string =>
  `Check its state: zael status${flags}. Run the same command again to finish.`
