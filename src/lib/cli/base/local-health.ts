import type {StackHealth} from '../../infra/health/health.js'
import type {PartName} from '../../infra/health/parts.js'
import type {StackContext} from './context.js'

export type SupervisorFacts = Readonly<NonNullable<Awaited<ReturnType<typeof readSupervisor>>>>

/** `null` when the local stack does not run. `aggregator` is `null` if the stack runs without one. */
export async function readSupervisor() {
  const [{stackStatus}, {findStateDir}] = await Promise.all([
    import('../../local/find.js'),
    import('../../local/state-dir/state.js'),
  ])
  const status = await stackStatus(findStateDir())
  if (!status.running) return null
  const {state, live} = status
  return {
    endpoint: state.endpoint,
    engine: `${state.engine} ${state.engineVersion}`,
    uptimeMs: live.uptimeMs,
    engineRestarts: live.engineRestarts,
    aggregator: live.aggregator,
  }
}

/** `null`: none. A supervisor serves one table on its own engine, not one of the same name elsewhere. */
export async function supervisorOf({
  stack,
  endpoint,
}: Pick<StackContext, 'stack' | 'endpoint'>): Promise<SupervisorFacts | null> {
  const {LOCAL_STACK} = await import('../../local/state-dir/state.js')
  if (stack !== LOCAL_STACK || endpoint === undefined) return null
  const local = await readSupervisor()
  return local && new URL(local.endpoint).origin === new URL(endpoint).origin ? local : null
}

export function withSupervisor(health: StackHealth, local: SupervisorFacts | null): StackHealth {
  const error = local?.aggregator?.lastError ?? null
  if (error === null) return health
  const finding = {severity: 'problem', part: 'aggregator', message: error, fix: 'zael local logs'} as const
  return {...health, findings: [finding, ...health.findings], isHealthy: false}
}

export const PART_NAMES: Readonly<Record<PartName, string>> = {
  cloudFormation: 'stack',
  table: 'table',
  aggregator: 'aggregator',
  mapping: 'mapping',
  traffic: 'metrics',
  deadLetters: 'dead letters',
  alarms: 'alarms',
  versions: 'versions',
  drift: 'drift',
}

/** `UPDATE_COMPLETE` → `update complete`. */
export const constantWords = (constant: string): string => constant.toLowerCase().replaceAll('_', ' ')
