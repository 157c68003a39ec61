import {ZaelError} from '../../core/errors.js'
import {TableMissing} from '../../dynamo/errors.js'
import type {Aws} from '../../infra/aws/clients.js'
import {
  type Check,
  clockCheck,
  examineAccount,
  failedCheck,
  latencyCheck,
  nodeCheck,
  passedCheck,
  probeEndpoint,
  warningCheck,
} from '../../infra/doctor/machine-checks.js'
import type {StackHealth} from '../../infra/health/health.js'
import {openStack, type StackContext, type StackFlagValues} from '../base/context.js'
import {paint} from '../output/lines.js'

export interface Examination {
  readonly flags: StackFlagValues
  /** The user named the stack; a default stack may be missing. */
  readonly isNamed: boolean
  readonly version: string
}

const UNSEEN = {cloudFormation: null, unknown: []}

export async function examine(examination: Examination, env: NodeJS.ProcessEnv = process.env): Promise<Check[]> {
  const machine = [nodeCheck(process.version), await engineCheck()]
  try {
    await using context = await openStack(examination.flags, env)
    using aws = await context.awsServices()
    return [...machine, ...(await examineAccess(examination, context, aws, env))]
  } catch (error) {
    // A wrong flag or setting is an error of the command, not a finding.
    if (!(error instanceof ZaelError) || error.kind === 'usage') throw error
    return [...machine, failedCheck('account', 'endpoint', error.message, error.hint ?? null)]
  }
}

async function examineAccess(
  {flags, isNamed, version}: Examination,
  context: StackContext,
  aws: Aws | undefined,
  env: NodeJS.ProcessEnv,
): Promise<Check[]> {
  const {permissionChecks} = await import('../../infra/doctor/permission-checks.js')
  const account = aws && (await examineAccount(aws, Date.now()))
  const accountChecks = account?.checks ?? [passedCheck('account', 'credentials', 'not required for a local engine')]
  if (account && !account.caller) return [...accountChecks]
  const probe = await probeEndpoint(await connectionOf(flags, env), Date.now)
  const {checks, health} = await examineStack(context, aws, {isNamed, version})
  const permissions =
    aws && account?.caller && account.region && (health || isNamed)
      ? await permissionChecks(aws, account.caller, {region: account.region, stack: flags.stack}, health ?? UNSEEN)
      : []
  return [clockCheck(probe), ...accountChecks, latencyCheck(probe), ...permissions, ...checks]
}

async function examineStack(
  {stack, table}: StackContext,
  aws: Aws | undefined,
  {isNamed, version}: {isNamed: boolean; version: string},
): Promise<{checks: Check[]; health: StackHealth | undefined}> {
  const [{gatherHealth}, {stackChecks, templateFilters}, {loadStackTemplate}] = await Promise.all([
    import('../../infra/health/health.js'),
    import('../../infra/doctor/stack-checks.js'),
    import('../../infra/stack/artifacts.js'),
  ])
  try {
    const health = await gatherHealth({table, aws, ourVersion: version})
    return {checks: stackChecks(health, templateFilters(await loadStackTemplate()), version), health}
  } catch (error) {
    if (!(error instanceof ZaelError)) throw error
    if (!(error instanceof TableMissing)) {
      return {checks: [failedCheck('stack', 'stack', error.message, error.hint ?? null)], health: undefined}
    }
    const look = `zael list${aws ? ' --all-regions' : ''}, or zael deploy --stack ${stack}`
    const missing = failedCheck('stack', 'stack', `stack "${stack}" not found`, look)
    return {checks: isNamed ? [missing] : [], health: undefined}
  }
}

/** The local stack's endpoint comes from its supervisor, not from the environment. */
async function connectionOf(
  {stack, region, profile, 'endpoint-url': endpointUrl}: StackFlagValues,
  env: NodeJS.ProcessEnv,
) {
  const [{resolveConnection}, {LOCAL_STACK}, {readSupervisor}] = await Promise.all([
    import('../../dynamo/connection.js'),
    import('../../local/state-dir/state.js'),
    import('../base/local-health.js'),
  ])
  const isLocalStack = stack === LOCAL_STACK && !endpointUrl
  if (!isLocalStack) return resolveConnection({region, profile, endpointUrl}, env)
  return resolveConnection({endpointUrl: (await readSupervisor())?.endpoint}, {})
}

async function engineCheck(): Promise<Check> {
  const {findEngines} = await import('../../local/engines/find.js')
  const engines = await findEngines()
  const runnable = engines.filter(({problem}) => problem === undefined).map(({name}) => name)
  if (runnable.length > 0) return passedCheck('machine', 'local engine', runnable.join(', '))
  const hint = engines[0]?.problem?.hint ?? null
  return warningCheck('machine', 'local engine', 'none: `zael local up` cannot run on this machine', hint)
}

const COLOURS: Readonly<Record<Check['state'], string>> = {ok: 'green', warn: 'yellow', fail: 'red'}

const TITLES: Readonly<Record<Check['group'], string>> = {machine: 'Machine', account: 'Access', stack: 'Stack'}

export function checkLines(checks: readonly Check[]): string[] {
  const width = Math.max(0, ...checks.map(({name}) => name.length))
  const groups = (['machine', 'account', 'stack'] as const).flatMap(group => {
    const own = checks.filter(check => check.group === group)
    return own.length === 0 ? [] : [TITLES[group], ...own.flatMap(check => linesOf(check, width)), '']
  })
  return [...groups, verdict(checks)]
}

function linesOf({state, name, message, fix}: Check, width: number): string[] {
  const line = `  ${paint(COLOURS[state], state.padEnd(4))}  ${name.padEnd(width)}  ${message}`
  return fix === null ? [line] : [line, `  ${' '.repeat(4 + 2 + width)}  ${paint('dim', 'Try:')} ${fix}`]
}

function verdict(checks: readonly Check[]): string {
  const count = (state: Check['state']) => checks.filter(check => check.state === state).length
  return `${count('ok')} ok, ${count('warn')} warn, ${count('fail')} fail`
}
