import type {Planned} from './rare.js'
import type {ScenarioEvent, Step} from './scenario.js'
import type {Draws} from './world/draws.js'

type Acquire = Extract<ScenarioEvent, {kind: 'acquire'}>

/** About as long as a settlement is pending and then in flight, in ms. */
const WAIT_MS = 120

/**
 * Settles many leases with `settle: 'soon'`, some while their process makes requests. Some processes end or die while
 * settlements are pending.
 */
export function settleSomeSoon(planned: Planned, draws: Draws): Planned {
  const mayDie = planned.steps.some(({event}) => event.kind === 'kill')
  const mayEnd = mayDie || planned.steps.some(({event}) => event.kind === 'recycle')
  const steps: Step[] = []
  for (const step of planned.steps) {
    const {atMs, by, event} = step
    if (event.kind !== 'acquire' || event.actions.length === 0 || !draws.chance(0.4)) {
      steps.push(step)
      continue
    }
    steps.push({atMs, by, event: {...event, isSoon: true}})
    const settledMs = firstSettlementMs(event)
    if (settledMs === undefined) continue
    steps.push(...company(draws, step, event, settledMs))
    const endsMs = atMs + settledMs + draws.int(5, WAIT_MS)
    if (mayEnd && draws.chance(0.1)) steps.push({atMs: endsMs, by, event: {kind: 'recycle'}})
    else if (mayDie && draws.chance(0.15))
      steps.push(
        {atMs: endsMs, by, event: {kind: 'kill'}},
        {atMs: endsMs + draws.int(10, 5000), by, event: {kind: 'restart'}},
      )
  }
  return {...planned, steps}
}

/** Requests of the same process for the same bucket while the settlement is pending. */
function company(draws: Draws, {atMs, by}: Step, {entity, consume}: Acquire, settledMs: number): Step[] {
  const [name] = Object.keys(consume)
  if (name === undefined || draws.chance(0.4)) return []
  const event: Acquire = {kind: 'acquire', entity, consume: {[name]: 1}, actions: []}
  return Array.from({length: draws.int(1, 2)}, () => ({atMs: atMs + settledMs + draws.int(0, 60), by, event}))
}

/** When the first settlement is made, in ms after the request. */
function firstSettlementMs({actions}: Acquire): number | undefined {
  let sinceMs = 0
  for (const {kind, afterMs} of actions) {
    sinceMs += afterMs
    if (kind === 'adjust' || kind === 'release') return sinceMs
  }
  return undefined
}
