import {formatPlural, formatTokens, formatWait} from '../../core/text/text.js'
import type {ExplainedLimit, Explanation} from '../../insight/why/explain.js'
import type {WhyAllResult} from './results.js'
import {refusedLately, verdict, whyJson, whyLines} from './why-presenter.js'

export interface WhyReport {
  readonly entity: string
  readonly atMs: number
  /** Worst first. */
  readonly explanations: readonly Explanation[]
}

/** All resources of an entity: those that refuse, or have refused lately, in full; the others in a sentence each. */
export function whyAllLines({entity, explanations}: WhyReport, where = ''): string[] {
  if (explanations.length === 0) return [`${entity} uses no resource that has limits.`]
  const refusing = explanations.filter(({admitted}) => !admitted).length
  const count = formatPlural(explanations.length, 'resource')
  const head = refusing === 0 ? `${count}, none refuses now.` : `${count}, ${refusing} refusing now.`
  return [
    `${entity}: ${head}`,
    ...explanations.flatMap(each => ['', ...(isNotable(each) ? whyLines(each, where) : [verdict(each)])]),
  ]
}

const isNotable = (explanation: Explanation): boolean =>
  !explanation.admitted || refusedLately(explanation) !== undefined

export function whyAllJson({entity, atMs, explanations}: WhyReport, where = ''): WhyAllResult {
  return {
    entity,
    at: new Date(atMs).toISOString(),
    admitted: explanations.every(({admitted}) => admitted),
    resources: explanations.map(each => whyJson(each, where)),
  }
}

export function whyShortLines({entity, atMs, explanations}: WhyReport): string[] {
  const time = new Date(atMs).toISOString().replace(/\.\d+Z$/, 'Z')
  if (explanations.length === 0) return [`${time}  ${entity}  uses no resource that has limits`]
  return explanations.map(each => {
    const refused = refusedLately(each)
    return `${time}  ${entity} ${each.resource}  ${stateText(each)}${refused === undefined ? '' : `; ${refused}`}`
  })
}

function stateText({admitted, disabled, limits, retryAfterMs}: Explanation): string {
  if (disabled) return `disabled for ${disabled.entity}`
  const decisive = limits.filter(({exceeded}) => exceeded !== admitted)
  const tightest = decisive.toSorted((a, b) => roomOf(a) - roomOf(b))[0]
  const detail = tightest ? `: ${limitText(tightest)}` : ''
  if (admitted) return `fits${detail}`
  return `refused${detail}, ${retryAfterMs === Infinity ? 'waiting does not help' : `clears in ${formatWait(retryAfterMs)}`}`
}

const roomOf = ({available, requested, capacity}: ExplainedLimit): number =>
  (available - requested) / Math.max(1, capacity)

function limitText({name, level, entity, available, capacity, requested, configured}: ExplainedLimit): string {
  const count = (tokens: number) => formatTokens(tokens, configured.unit)
  const whose = level === 'parent' ? ` of the parent ${entity}` : ''
  return `${name}${whose} ${count(available)} of ${count(capacity)} left, ${count(requested)} requested`
}
