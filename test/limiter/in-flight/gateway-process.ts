import {once} from 'node:events'
import {connect} from 'node:net'
import {setTimeout as sleep} from 'node:timers/promises'
import {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'

/** A gateway that makes its calls to a witness until it is stopped. */
export interface GatewayTask {
  readonly endpoint: string
  readonly stack: string
  readonly namespaceId: string
  readonly port: number
  readonly callers: number
  /** Tokens of a quota that each call takes, reserved while it lasts. */
  readonly tokens: number
}

/** In ms. Some last long enough for their tokens to be stored. */
const someDuration = (): number => (Math.random() < 0.25 ? 1500 + Math.random() * 1500 : 50 + Math.random() * 350)

/** The call ends when the witness has confirmed it: only then may the slot be given to others. */
async function call(port: number, signal: AbortSignal): Promise<void> {
  const socket = connect(port, '127.0.0.1')
  const abandon = () => socket.destroy()
  signal.addEventListener('abort', abandon)
  try {
    await once(socket, 'connect')
    socket.write(`pid ${process.pid} `)
    await sleep(someDuration())
    socket.write('done')
    await Promise.race([once(socket, 'data'), once(socket, 'close')])
  } catch {
    // Aborted: the connection is closed.
  } finally {
    signal.removeEventListener('abort', abandon)
    socket.destroy()
  }
}

async function run({endpoint, stack, namespaceId, port, callers, tokens}: GatewayTask): Promise<void> {
  const limiter = new RateLimiter({stack, namespaceId, endpoint})
  const lanes = Array.from({length: callers}, async () => {
    for (;;) {
      const consume = {rpm: 1, tpd: tokens}
      const decision = await limiter.tryAcquire({entity: 'user-1', resource: 'gpt-4', consume, reserve: true})
      if (!decision.admitted) {
        await sleep(50 + Math.random() * 200)
        continue
      }
      const {lease} = decision
      if (lease.signal.aborted) {
        await lease.rollback()
        continue
      }
      await call(port, lease.signal)
      await lease.commit()
      process.send?.({calls: 1})
    }
  })
  await Promise.all(lanes)
}

process.once('message', task => void run(task as GatewayTask))
