import {run} from './run.js'
import {type Fault, type Scenario, type ScenarioEvent, type Step, USUAL_CACHE_SIZE} from './scenario.js'

/** Maximum runs for shortening. */
const MOST_RUNS = 400

/** A part of a scenario that can be omitted. */
type Part = {readonly step: Step} | {readonly fault: Fault}

/** Omits everything that the violation does not need: steps, faults, then actions of leases. */
export async function shorten(scenario: Scenario, oracle: string): Promise<Scenario> {
  let runs = 0
  const fails = async (candidate: Scenario): Promise<boolean> => {
    if (runs++ >= MOST_RUNS) return false
    return (await run(candidate)).violations.some(violation => violation.oracle === oracle)
  }
  const parts: Part[] = [...scenario.steps.map(step => ({step})), ...scenario.faults.map(fault => ({fault}))]
  const kept = await smallest(parts, subset => fails(assembled(scenario, subset)))
  return withFewerActions(assembled(scenario, kept), fails)
}

function assembled(scenario: Scenario, parts: readonly Part[]): Scenario {
  return {
    ...scenario,
    steps: parts.flatMap(part => ('step' in part ? [part.step] : [])),
    faults: parts.flatMap(part => ('fault' in part ? [part.fault] : [])),
  }
}

/** Delta debugging: omits halves, then quarters, and so on, as long as the rest still fails. */
async function smallest<T>(
  all: readonly T[],
  fails: (subset: readonly T[]) => Promise<boolean>,
): Promise<readonly T[]> {
  let kept = all
  for (let size = Math.ceil(kept.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = 0; at < kept.length; ) {
      const without = [...kept.slice(0, at), ...kept.slice(at + size)]
      if (await fails(without)) kept = without
      else at += size
    }
  }
  return kept
}

async function withFewerActions(
  scenario: Scenario,
  fails: (candidate: Scenario) => Promise<boolean>,
): Promise<Scenario> {
  let shortest = scenario
  for (const [at, {event}] of scenario.steps.entries()) {
    if (event.kind !== 'acquire') continue
    const replaced = (actions: typeof event.actions): Scenario => {
      const steps = shortest.steps.map((step, index) =>
        index === at ? {...step, event: {...event, actions} as ScenarioEvent} : step,
      )
      return {...shortest, steps}
    }
    // A lease that never ends keeps its slots.
    const ends = scenario.profile === 'holders' ? event.actions.slice(-1) : []
    const others = event.actions.slice(0, event.actions.length - ends.length)
    const kept = await smallest(others, subset => fails(replaced([...subset, ...ends])))
    shortest = replaced([...kept, ...ends])
  }
  return shortest
}

/** A scenario as text, one line per step and fault. */
export function describeScenario(scenario: Scenario): string {
  const {profile, seed, skewsMs, configs, children, levels, cacheSize, steps, faults} = scenario
  const limits = configs.map(({scope, limits: all}) => {
    const texts = all.map(
      ({name, capacity, refillAmount, refillPeriodSeconds}) =>
        `${name}=${refillAmount}/${refillPeriodSeconds}s:${capacity}`,
    )
    return `${'entity' in scope ? scope.entity : scope.level} ${texts.join(' ')}`
  })
  const who = (by: number) => (by >= 0 ? `p${by}` : by === -1 ? 'aggregator' : 'other')
  const ordered = steps.toSorted((a, b) => a.atMs - b.atMs)
  return [
    `seed ${seed}, profile ${profile}, ${skewsMs.length} processes${skewsMs.some(ms => ms !== 0) ? ` with clocks ${skewsMs.join(', ')} ms ahead` : ''}`,
    ...(cacheSize === USUAL_CACHE_SIZE ? [] : [`  caches of ${cacheSize}`]),
    ...limits.map(text => `  limits of ${text}`),
    ...(levels ? [`  requests charge ${levels} levels`] : []),
    ...Object.entries(children).map(([child, parent]) => `  ${child} shares with ${parent}`),
    ...ordered.map(({atMs, by, event}) => `  ${atMs} ms ${who(by)} ${JSON.stringify(event)}`),
    ...faults.map(
      ({by, call, operation = 'call', kind, delayMs}) =>
        `  fault: ${operation} ${call} of ${who(by)} ${kind} (${delayMs} ms)`,
    ),
  ].join('\n')
}
