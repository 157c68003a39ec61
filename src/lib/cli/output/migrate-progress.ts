import type {StepProgress} from '../../migrations/walk/pass.js'
import {formatCount, formatSpan} from './facts.js'
import {barLine, type ProgressStream} from './progress.js'

const ERASE_LINE = '\u001b[2K'

/** How far a migration is, on one line that is drawn over and over on a terminal; nothing at all without one. */
export interface MigrationBar {
  update(progress: StepProgress): void
  end(): void
}

/** Draws step, share, pace and time left. */
export function migrationBar(clock: () => number = Date.now, stream: ProgressStream = process.stderr): MigrationBar {
  if (!stream.isTTY) return {update: () => {}, end: () => {}}
  let step = ''
  let sinceMs = 0
  return {
    update(progress) {
      const name = `${progress.step} ${progress.pass}`
      if (name !== step) sinceMs = clock()
      step = name
      stream.write(`\r${ERASE_LINE}${progressLine(progress, clock() - sinceMs, stream.columns ?? 80)}`)
    },
    end: () => stream.write(`\r${ERASE_LINE}`),
  }
}

/** The line as it is drawn `elapsedMs` after the step began, in that many columns. */
export function progressLine(progress: StepProgress, elapsedMs: number, columns: number): string {
  const {step, scanned, total, pass, waitingFor} = progress
  if (waitingFor !== undefined) return `${step}: ${waitingFor} is being built`.slice(0, columns - 1)
  const title = pass > 1 ? `${step}, pass ${pass}` : step
  const perSecond = elapsedMs > 0 ? Math.round((scanned * 1000) / elapsedMs) : 0
  const pace = perSecond > 0 ? `${formatCount(perSecond)}/s` : ''
  if (total === undefined) return `${title}  ${formatCount(scanned)} items  ${pace}`.trimEnd().slice(0, columns - 1)
  const leftMs = perSecond > 0 ? (Math.max(0, total - scanned) * 1000) / perSecond : 0
  const left = leftMs >= 1000 ? `  ${formatSpan(Math.round(leftMs / 1000) * 1000)} left` : ''
  const tail = pace === '' ? '' : `  ${pace}${left}`
  return barLine(title, scanned, total, columns - tail.length) + tail
}
