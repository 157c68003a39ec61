import type {Account} from './account.js'
import type {ResourcePlan, StackResourceState} from './planned-changes.js'
import type {WantedResource} from './stack-template.js'

/** One step of an operation, as reported by an event. */
export interface Step {
  /** `null`: the stack itself. */
  readonly logicalId: string | null
  readonly status: string
  readonly physicalId?: string
  readonly reason?: string
}

/** What an operation changes. */
export interface Operated {
  readonly name: string
  /** Counts the stacks of an account. */
  readonly number: number
  readonly account: Account
  readonly resources: Map<string, StackResourceState>
  /** Why creating, updating or deleting a resource fails, by logical id. */
  readonly failures: ReadonlyMap<string, string>
}

interface CreateOptions {
  /** RetainExceptOnCreate of ExecuteChangeSet. */
  readonly removesRetained: boolean
  /** The stack exists; otherwise it is created. */
  readonly isUpdate: boolean
}

type Steps = AsyncGenerator<Step, void>

/** Executes a change set. The order of events is that of AWS's documentation and of published logs of deployments. */
export async function* execute(on: Operated, plans: readonly ResourcePlan[], options: CreateOptions): Steps {
  const verb = options.isUpdate ? 'UPDATE' : 'CREATE'
  const former = new Map(on.resources)
  yield {logicalId: null, status: `${verb}_IN_PROGRESS`, reason: 'User Initiated'}
  const removals = plans.filter(({action}) => action === 'Remove')
  const done: ResourcePlan[] = []
  for (const plan of plans) {
    if (plan.action === 'Remove' || !plan.wanted) continue
    const failed = yield* apply(on, plan, plan.wanted)
    done.push(plan)
    if (failed) {
      for (const {logicalId, action} of plans.slice(plans.indexOf(plan) + 1, plans.indexOf(plan) + 2))
        yield {logicalId, status: `${action === 'Modify' ? 'UPDATE' : 'CREATE'}_FAILED`, reason: cancelled(action)}
      return yield* rollBack(on, done, former, plan.logicalId, options)
    }
  }
  if (options.isUpdate) yield {logicalId: null, status: 'UPDATE_COMPLETE_CLEANUP_IN_PROGRESS'}
  for (const {before} of removals) if (before) yield* remove(on, before, before.isRetained)
  yield {logicalId: null, status: `${verb}_COMPLETE`}
}

/** Deletes a stack; resources with a retain policy stay. One that fails does not keep the others. */
export async function* deleteAll(on: Operated): Steps {
  yield {logicalId: null, status: 'DELETE_IN_PROGRESS', reason: 'User Initiated'}
  const failed: string[] = []
  for (const resource of [...on.resources.values()].reverse()) {
    const {logicalId, isRetained} = resource
    const reason = on.failures.get(logicalId)
    if (reason !== undefined) {
      failed.push(logicalId)
      on.resources.set(logicalId, {...resource, status: 'DELETE_FAILED'})
      yield {logicalId, status: 'DELETE_FAILED', reason}
      continue
    }
    yield* remove(on, resource, isRetained)
    // The stack still lists its old resources.
    on.resources.set(logicalId, {...resource, status: isRetained ? 'DELETE_SKIPPED' : 'DELETE_COMPLETE'})
  }
  if (failed.length === 0) return void (yield {logicalId: null, status: 'DELETE_COMPLETE'})
  const reason = `The following resource(s) failed to delete: [${failed.join(', ')}]. `
  yield {logicalId: null, status: 'DELETE_FAILED', reason}
}

/** Creates, imports or updates one resource; returns whether it failed. */
async function* apply(on: Operated, plan: ResourcePlan, wanted: WantedResource): AsyncGenerator<Step, boolean> {
  const {logicalId, type, properties, isRetained} = wanted
  const verb = plan.action === 'Import' ? 'IMPORT' : plan.action === 'Add' ? 'CREATE' : 'UPDATE'
  const started = verb === 'IMPORT' ? {reason: 'Resource import started.'} : {}
  yield {logicalId, status: `${verb}_IN_PROGRESS`, ...started}
  const failure = on.failures.get(logicalId)
  if (failure !== undefined) {
    yield {logicalId, status: `${verb}_FAILED`, reason: failure}
    return true
  }
  const physicalId = plan.before?.physicalId ?? wanted.name ?? `${on.name}-${logicalId}-1a2b${on.number}`.toLowerCase()
  const live = await on.account.find(type, physicalId)
  if (verb === 'CREATE') yield {logicalId, status: 'CREATE_IN_PROGRESS', reason: 'Resource creation Initiated'}
  if (verb === 'CREATE' && live) {
    yield {logicalId, status: 'CREATE_FAILED', reason: alreadyExists(physicalId)}
    return true
  }
  // An import changes nothing: CloudFormation takes it that the resource is as the template has it.
  if (verb !== 'IMPORT') await on.account.put(type, physicalId, {...live, ...properties})
  const status = `${verb}_COMPLETE`
  on.resources.set(logicalId, {logicalId, physicalId, type, status, properties, isRetained})
  yield {logicalId, status, ...(verb === 'IMPORT' && {reason: 'Resource import completed.'})}
  if (verb === 'IMPORT') {
    yield {
      logicalId,
      status: 'UPDATE_IN_PROGRESS',
      reason: 'Apply stack-level tags to imported resource if applicable.',
    }
    yield {logicalId, status: 'UPDATE_COMPLETE'}
  }
  return false
}

async function* rollBack(
  on: Operated,
  done: readonly ResourcePlan[],
  former: ReadonlyMap<string, StackResourceState>,
  failed: string,
  {isUpdate, removesRetained}: CreateOptions,
): Steps {
  const verb = isUpdate ? 'update' : 'create'
  const reason = `The following resource(s) failed to ${verb}: [${failed}]. `
  const status = isUpdate ? 'UPDATE_ROLLBACK' : 'ROLLBACK'
  yield {
    logicalId: null,
    status: `${status}_IN_PROGRESS`,
    reason: isUpdate ? reason : `${reason}Rollback requested by user.`,
  }
  for (const {logicalId, before, action} of [...done].reverse()) {
    const now = on.resources.get(logicalId)
    if (action === 'Modify' && before) {
      await on.account.put(before.type, before.physicalId, before.properties)
      on.resources.set(logicalId, before)
      yield {logicalId, status: 'UPDATE_COMPLETE'}
    } else if (now && !former.has(logicalId)) yield* remove(on, now, now.isRetained && !removesRetained)
  }
  if (isUpdate) yield {logicalId: null, status: 'UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS'}
  yield {logicalId: null, status: `${status}_COMPLETE`}
}

async function* remove(on: Operated, resource: StackResourceState, isKept: boolean): Steps {
  const {logicalId, type, physicalId} = resource
  on.resources.delete(logicalId)
  if (isKept) return void (yield {logicalId, physicalId, status: 'DELETE_SKIPPED'})
  yield {logicalId, status: 'DELETE_IN_PROGRESS'}
  await on.account.remove(type, physicalId)
  yield {logicalId, status: 'DELETE_COMPLETE'}
}

function cancelled(action: string): string {
  return `Resource ${action === 'Modify' ? 'update' : 'creation'} cancelled`
}

function alreadyExists(id: string): string {
  return `Resource handler returned message: "${id} already exists" (RequestToken: 0a1b, HandlerErrorCode: AlreadyExists)`
}
