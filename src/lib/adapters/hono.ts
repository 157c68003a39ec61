/// <reference lib="esnext.disposable" preserve="true" />
/**
 * Limits requests of a Hono app.
 *
 * @packageDocumentation
 */
import {endingWith} from '../limiter/observed-stream.js'
import {createServerGuard, type GuardLimiter, type GuardOptions, keepLease, refusalResponse} from './guard.js'

export {hashKey} from '../schema/hashed-name.js'
export type {DecisionOptions, GuardLimiter, GuardOptions, HeaderStyle, LimitNames} from './guard.js'
export {leaseOf} from './guard.js'

/** The part of Hono's `Context` that the adapter needs. */
export interface HonoContext {
  readonly req: {readonly raw: Request; header(name: string): string | undefined}
  res: Response
  header(name: string, value: string): void
}

/**
 * Middleware that admits or refuses requests.
 *
 * @example
 * ```ts
 * app.use(honoLimiter(limiter, {entity: c => hashKey(c.req.header('x-api-key')), resource: 'api', consume: {rpm: 1}}))
 * ```
 */
export function honoLimiter<Context extends HonoContext = HonoContext, Name extends string = string>(
  limiter: GuardLimiter<Name>,
  options: GuardOptions<Context, NoInfer<Name>>,
): (context: Context, next: () => Promise<void>) => Promise<Response | undefined> {
  const guard = createServerGuard(limiter, options)
  return async (context, next) => {
    const outcome = await guard(context, context.req.raw.signal)
    if (outcome.kind === 'refused' || outcome.kind === 'gone') return refusalResponse(outcome)
    if (outcome.kind === 'admitted') keepLease(outcome.lease, context, context.req.raw)
    if (outcome.kind !== 'admitted') {
      await next()
      return undefined
    }
    try {
      await next()
      // After the handler: its response would replace the fields, and its adjustments count.
      for (const [name, value] of Object.entries(outcome.headers())) context.header(name, value)
      const {status} = context.res
      const answered = () => outcome.answered(status)
      // Slots are held until the client has read the response.
      const held = outcome.lease.holdsSlots ? endingWith(context.res, answered) : undefined
      if (held) context.res = held
      else await answered()
    } catch (error) {
      await outcome.lease.returnSlots()
      throw error
    }
    return undefined
  }
}
