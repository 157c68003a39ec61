import {setTimeout as sleep} from 'node:timers/promises'
import {asSentence} from '../../core/text/text.js'
import type {AwaitedEnd} from '../output/listen-for-end.js'
import type {WhyReport} from './why-all-presenter.js'

export interface FollowWhyOptions {
  readonly look: () => Promise<WhyReport>
  /** `problem`: why the latest look failed; the report is the one before. */
  readonly show: (report: WhyReport, problem: string | undefined) => void
  readonly intervalMs: number
  readonly end: Pick<AwaitedEnd, 'reached' | 'signal'>
}

/** Looks again and again until the end; resolves to the exit code. A look that fails is repeated, unless it is the first. */
export async function followWhy({look, show, intervalMs, end}: FollowWhyOptions): Promise<number> {
  let report = await look()
  let problem: string | undefined
  while (!end.signal.aborted) {
    show(report, problem)
    await sleep(intervalMs, undefined, {signal: end.signal}).catch(() => {})
    if (end.signal.aborted) break
    try {
      report = await Promise.race([look(), end.reached.then(() => report)])
      problem = undefined
    } catch (error) {
      problem = asSentence(error instanceof Error ? error.message.replace(/\.$/, '') : String(error))
    }
  }
  return end.reached
}
