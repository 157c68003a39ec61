import {setTimeout as sleep} from 'node:timers/promises'
import {InvalidInput} from '../../core/errors.js'
import {parseAmounts, tokensIn} from '../../core/limits/amount-text.js'
import {checkEntityId, checkResourceName} from '../../core/names.js'
import {parseDuration} from '../../core/text/duration.js'
import {asSentence} from '../../core/text/text.js'
import {textStart, textWidth} from '../../core/text/text-width.js'
import {blockOf, explain, explainAll} from '../../insight/why/explain.js'
import type {StackContext} from '../base/context.js'
import {type AwaitedEnd, listenForEnd} from '../output/interrupt.js'
import {jsonText} from '../output/json-text.js'
import {fittedLines, plainLine, safeLine} from '../output/lines.js'
import type {WhyResult} from './results.js'
import {type WhyReport, whyAllJson, whyAllLines, whyJson, whyLines, whyShortLines} from './why-presenter.js'

const SHORTEST_INTERVAL_MS = 1000
const LONGEST_INTERVAL_MS = 3_600_000

interface WhyInput {
  readonly entity: string
  readonly resource?: string | undefined
  readonly amounts?: readonly string[] | undefined
  readonly follow?: boolean | undefined
  readonly interval?: string | undefined
}

export interface WhyRequest {
  readonly entity: string
  /** `undefined`: all resources of the entity. */
  readonly resource: string | undefined
  readonly asked: ReturnType<typeof parseAmounts>
  readonly follow: boolean
  readonly intervalMs: number
}

export function whyRequest({entity, resource, amounts = [], follow = false, interval = '5s'}: WhyInput): WhyRequest {
  checkEntityId(entity)
  if (resource?.includes('=')) {
    throw new InvalidInput('why.resource', `"${resource}" is an amount. A resource must come before it.`, {
      hint: `zael why ${entity} RESOURCE ${resource}`,
      details: {resource},
    })
  }
  if (resource !== undefined) checkResourceName(resource)
  return {entity, resource, asked: parseAmounts(amounts), follow, intervalMs: intervalOf(interval)}
}

function intervalOf(text: string): number {
  const ms = parseDuration(text)
  if (ms >= SHORTEST_INTERVAL_MS && ms <= LONGEST_INTERVAL_MS) return ms
  throw new InvalidInput('why.interval', `--interval: ${text} is not between 1s and 1h.`, {
    hint: 'Each refresh costs several read units per resource. 5s is a good value.',
    details: {interval: text},
  })
}

export async function lookWith(
  {namespace: open, table}: StackContext,
  {entity, resource, asked}: WhyRequest,
): Promise<() => Promise<WhyReport>> {
  const namespace = await open()
  const consume = asked.size === 0 ? undefined : tokensIn(asked, await namespace.configs.units())
  const {clock} = table
  return async () => {
    // The user may just have changed the limits.
    namespace.configs.cache.invalidate()
    if (resource !== undefined) {
      const one = await explain(namespace, {entity, resource, consume}, clock)
      return {entity, atMs: one.atMs, explanations: [one]}
    }
    const explanations = await explainAll(namespace, entity, clock)
    const disabled = await blockOf(namespace, entity)
    return {entity, atMs: explanations[0]?.atMs ?? clock(), explanations, disabled}
  }
}

export function presentWhy(
  report: WhyReport,
  {resource}: Pick<WhyRequest, 'resource'>,
  where: string,
): {readonly lines: string[]; readonly json: WhyResult} {
  const [one] = report.explanations
  if (resource === undefined || !one) return {lines: whyAllLines(report, where), json: whyAllJson(report, where)}
  return {lines: whyLines(one, where), json: whyJson(one, where)}
}

export async function runFollow(
  look: () => Promise<WhyReport>,
  request: WhyRequest,
  {isJson, where}: {readonly isJson: boolean; readonly where: string},
): Promise<number> {
  const {stdout} = process
  const redraw = stdout.isTTY && process.env.TERM !== 'dumb' && !isJson ? redrawer(stdout) : undefined
  const show = (report: WhyReport, problem: string | undefined): void => {
    const {lines, json} = presentWhy(report, request, where)
    if (redraw) redraw([...timeLines(report, problem), ...lines])
    else if (problem !== undefined) process.stderr.write(`${safeLine(problem)}\n`)
    else stdout.write(`${isJson ? jsonText(json) : whyShortLines(report).map(safeLine).join('\n')}\n`)
  }
  const end = listenForEnd()
  try {
    return await followWhy({look, show, intervalMs: request.intervalMs, end})
  } finally {
    end.stop()
  }
}

function timeLines({atMs}: WhyReport, problem: string | undefined): string[] {
  const time = new Date(atMs).toISOString().replace(/\.\d+Z$/, 'Z')
  return [problem === undefined ? `${time}, Ctrl-C to stop` : `As of ${time}. ${problem}`, '']
}

export interface FollowWhyOptions {
  readonly look: () => Promise<WhyReport>
  /** `problem`: why the latest refresh failed; `report` is then the previous one. */
  readonly show: (report: WhyReport, problem: string | undefined) => void
  readonly intervalMs: number
  readonly end: Pick<AwaitedEnd, 'reached' | 'signal'>
}

/** Resolves to the exit code. Only the first read may throw; later failures are shown and retried. */
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

export interface DrawnTerminal {
  readonly columns?: number
  readonly rows?: number
  write(text: string): unknown
}

/** Redraws in one write to avoid flicker. Cuts off what exceeds the screen: scrolled lines cannot be redrawn. */
export function redrawer(terminal: DrawnTerminal): (lines: readonly string[]) => void {
  let drawn = 0
  return lines => {
    const {columns = 80, rows = 24} = terminal
    const fitted = lines.flatMap(line => fittedLines(line, {isTTY: true, columns}))
    const visible = fitted.slice(0, Math.max(1, rows - 1)).map(line => {
      // An overlong word would wrap, and the next redraw would start too low.
      const plain = plainLine(line)
      return textWidth(plain) > columns ? textStart(plain, columns) : safeLine(line)
    })
    const up = drawn === 0 ? '' : `\u001b[${drawn}A\r\u001b[J`
    terminal.write(`${up}${visible.join('\n')}\n`)
    drawn = visible.length
  }
}
