import {setTimeout as sleep} from 'node:timers/promises'
import {RateLimiter} from '../../../src/lib/index.js'

/** Requests of one entity, one after the other. */
export interface Lane {
  readonly entity: string
  readonly resource: string
  readonly consume: Readonly<Record<string, number>>
  /** Pause between two requests, in ms. */
  readonly pauseMs: number
  /** Settles each admitted request by these amounts. */
  readonly settle?: Readonly<Record<string, number>>
  /** Ends after so many requests. Default: never. */
  readonly most?: number
}

/** Outcomes of the requests of a lane. */
export interface Tally {
  admitted: number
  refused: number
  /** Refused by a switch. */
  disabled: number
  /** Limits of the last request that are not configured. */
  unlimited: readonly string[]
  /** Epoch ms of the first refusal; absent before. */
  firstRefusedMs?: number
}

/** Outcomes by `entity resource`, and unexpected exceptions. */
export interface TrafficReport {
  readonly tallies: Readonly<Record<string, Tally>>
  readonly errors: readonly string[]
}

/** Pause between two requests once one was refused, in ms: callers try less often then. */
const REFUSED_PAUSE_MS = 150

/** A service that uses the library: lanes come as messages, `report` and `close` are answered with a report. */
const tallies: Record<string, Tally> = {}
const errors: string[] = []
const limiter = new RateLimiter({stack: 'local', endpoint: process.argv[2] ?? ''})
let isOpen = true

async function run({entity, resource, consume, pauseMs, settle, most = Infinity}: Lane): Promise<void> {
  const tally: Tally = {admitted: 0, refused: 0, disabled: 0, unlimited: []}
  tallies[`${entity} ${resource}`] = tally
  for (let sent = 0; isOpen && sent < most; sent++) {
    try {
      const decision = await limiter.tryAcquire({entity, resource, consume})
      if (decision.admitted) {
        if (settle) await decision.lease.adjust(settle)
        await decision.lease.commit()
        tally.admitted++
        tally.unlimited = decision.unlimited
      } else if (decision.reason === 'disabled') tally.disabled++
      else {
        tally.refused++
        tally.firstRefusedMs ??= Date.now()
      }
    } catch (error) {
      errors.push(`${entity} ${resource}: ${error}`)
    }
    await sleep(tally.firstRefusedMs === undefined ? pauseMs : REFUSED_PAUSE_MS)
  }
}

process.on('message', async (message: Lane | 'report' | 'close') => {
  if (typeof message === 'object') return void run(message)
  if (message === 'close') {
    isOpen = false
    await limiter.close()
  }
  process.send?.({tallies, errors} satisfies TrafficReport)
  if (message === 'close') process.disconnect()
})
