import {changedError, InvalidInput, valueIf, ZaelError} from '../../core/errors.js'
import {durationMs, parseDuration} from '../../core/text/duration.js'
import {formatTokens} from '../../core/text/text.js'
import {isUnavailability} from '../../dynamo/errors.js'
import type {AcquireAttempt} from '../../insight/why/attempt.js'
import type {Lease} from '../../limiter/lease.js'
import type {AcquireRequest} from '../../limiter/request/options.js'
import type {UnitsByLimit} from '../../repository/limits/units.js'
import type {StackContext} from '../base/context.js'
import {interruptible} from '../output/interrupt.js'

const DEFAULT_WAIT = '60s'

/** oclif has no flags with an optional value. */
export function withDefaultWait(argv: readonly string[]): string[] {
  const end = argv.includes('--') ? argv.indexOf('--') : argv.length
  return argv.flatMap((word, at) => {
    const isBare = word === '--wait' && at < end && durationMs(argv[at + 1] ?? '') === undefined
    return isBare ? [`--wait=${DEFAULT_WAIT}`] : [word]
  })
}

/** Throws for `--wait banana`: the flag then has its default, and the next word counts as an amount. */
export function checkWait(argv: readonly string[], amounts: readonly string[] = []): void {
  const next = argv.includes('--wait') ? argv[argv.indexOf('--wait') + 1] : undefined
  if (next !== undefined && !/[=:]/.test(next) && amounts.includes(next)) parseDuration(next)
}

export function checkCommand(
  command: readonly string[] | undefined,
  amounts: readonly string[] | undefined,
  dryRun: boolean,
): void {
  const hint = 'zael acquire --help'
  if (!command && !amounts) throw new InvalidInput('command.usage', 'The amounts are missing, such as rpm=1.', {hint})
  if (command?.length === 0) throw new InvalidInput('command.usage', 'The command after -- is missing.', {hint})
  if (command && dryRun) throw new InvalidInput('command.usage', '--dry-run cannot run a command.', {hint})
}

/** `undefined` when the table is unavailable: the limiter then decides about the request. */
export function readableUnits(stack: StackContext): Promise<UnitsByLimit | undefined> {
  const reading = stack.namespace().then(({configs}) => configs.units())
  return reading.catch(valueIf(isUnavailability, undefined))
}

export function withReadableAmounts(error: unknown, units: UnitsByLimit | undefined): unknown {
  if (!(error instanceof ZaelError) || error.code !== 'request.too-large') return error
  const {entity, resource, limit, requested, capacity} = error.details
  const unit = units?.get(String(limit))
  const [asked, most] = [requested, capacity].map(tokens => formatTokens(Number(tokens), unit))
  const message = `A request of ${asked} ${limit} can never be admitted: ${entity} is limited to ${most} for ${resource}.`
  return changedError(error, {message, details: {...error.details, ...(unit !== undefined && {unit})}})
}

/** Longer than in a service: the first request may resolve credentials. */
const TIMEOUT_MS = 15_000

/** Uses its own limiter, as a service would. Ctrl-C refunds consumed tokens. */
export async function tryRequest(
  {stack, table: {transport, clock, backoff}}: StackContext,
  namespace: string,
  request: AcquireRequest,
  {dryRun, hold}: {readonly dryRun: boolean; readonly hold?: ((lease: Lease) => Promise<void>) | undefined},
): Promise<AcquireAttempt> {
  const [{RateLimiter}, {attemptAcquire, previewAcquire}] = await Promise.all([
    import('../../limiter/rate-limiter.js'),
    import('../../insight/why/attempt.js'),
  ])
  const {sleep} = backoff
  const limiter = new RateLimiter({stack, namespace, transport, clock, sleep, strict: true, timeoutMs: TIMEOUT_MS})
  try {
    return await interruptible(
      signal =>
        dryRun ? previewAcquire(limiter, {...request, signal}) : attemptAcquire(limiter, {...request, signal}, hold),
      () => new ZaelError('interrupted', 'acquire.interrupted', 'Interrupted before the request was admitted.'),
    )
  } finally {
    await limiter.close()
  }
}
