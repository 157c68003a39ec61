import type {Exploration, Situation} from './explore.js'
import type {PlayedSeed} from './players.js'
import type {Profile} from './scenario.js'

/** Totals of one profile. */
interface ProfileTotals {
  runs: number
  operations: number
  calls: number
  faults: number
  deliveries: number
  batched: number
  /** Seeds by oracle. */
  readonly found: Map<string, number[]>
}

/** Sums up the played seeds, for the terminal and docs/how-tested.md. */
export class Totals {
  readonly #profiles = new Map<Profile, ProfileTotals>()
  readonly #explored: string[] = []

  add(profile: Profile, seed: number, {operations, counts, violations}: PlayedSeed): void {
    const totals = this.#of(profile)
    totals.runs++
    totals.operations += operations
    totals.calls += counts.calls
    totals.faults += counts.faults
    totals.deliveries += counts.deliveries
    totals.batched += counts.batched
    for (const oracle of new Set(violations.map(each => each.oracle))) {
      totals.found.set(oracle, [...(totals.found.get(oracle) ?? []), seed])
    }
  }

  addExploration({name}: Situation, {orders, states, contents, isComplete, violations}: Exploration): void {
    const found = [...violations].map(([oracle, each]) => `${oracle} in ${each.orders} orders`).join(', ') || 'none'
    const size = isComplete ? `${orders}, complete` : `the first ${orders}`
    this.#explored.push(`| ${name} | ${size} | ${states} | ${contents} | ${found} |`)
  }

  /** Seeds by profile and oracle. */
  get found(): [string, number[]][] {
    return [...this.#profiles].flatMap(([profile, {found}]) =>
      [...found].map(([oracle, seeds]): [string, number[]] => [`${profile} ${oracle}`, seeds]),
    )
  }

  /** The totals of each profile as a Markdown table; `undefined` if nothing was played. */
  get seedTable(): string | undefined {
    if (this.#profiles.size === 0) return undefined
    const rows = [...this.#profiles].map(([profile, {runs, operations, calls, faults, deliveries, batched, found}]) => {
      const violations = [...found].map(([oracle, {length}]) => `${oracle} (${length})`).join(', ') || 'none'
      return `| \`${profile}\` | ${runs} | ${operations} | ${calls} | ${faults} | ${deliveries} | ${batched} | ${violations} |`
    })
    const sum = (field: 'runs' | 'operations' | 'calls' | 'faults' | 'deliveries' | 'batched') =>
      [...this.#profiles.values()].reduce((total, each) => total + each[field], 0)
    return [
      '| profile | seeds | operations | calls | faults | deliveries | batched | violations (seeds) |',
      '|---|---|---|---|---|---|---|---|',
      ...rows,
      `| all | ${sum('runs')} | ${sum('operations')} | ${sum('calls')} | ${sum('faults')} | ${sum('deliveries')} | ${sum('batched')} | |`,
    ].join('\n')
  }

  /** The explored situations as a Markdown table; `undefined` if there are none. */
  get orderTable(): string | undefined {
    if (this.#explored.length === 0) return undefined
    return [
      '| situation | orders played | states | contents of the table | violations |',
      '|---|---|---|---|---|',
      ...this.#explored,
    ].join('\n')
  }

  #of(profile: Profile): ProfileTotals {
    const known = this.#profiles.get(profile)
    if (known) return known
    const totals = {
      runs: 0,
      operations: 0,
      calls: 0,
      faults: 0,
      deliveries: 0,
      batched: 0,
      found: new Map<string, number[]>(),
    }
    this.#profiles.set(profile, totals)
    return totals
  }
}
