import {readFile, writeFile} from 'node:fs/promises'
import type {Exploration, Situation} from './explore.js'
import type {RunResult} from './run.js'
import type {Profile} from './scenario.js'

/** What was played of one profile. */
interface ProfileTotals {
  runs: number
  operations: number
  calls: number
  faults: number
  deliveries: number
  /** Seeds by oracle. */
  readonly found: Map<string, number[]>
}

/** Adds up what was played, for people and for the page about testing. */
export class Totals {
  readonly #profiles = new Map<Profile, ProfileTotals>()
  readonly #explored: string[] = []

  add(profile: Profile, seed: number, {operations, counts, violations}: RunResult): void {
    const totals = this.#of(profile)
    totals.runs++
    totals.operations += operations
    totals.calls += counts.calls
    totals.faults += counts.faults
    totals.deliveries += counts.deliveries
    for (const oracle of new Set(violations.map(each => each.oracle))) {
      totals.found.set(oracle, [...(totals.found.get(oracle) ?? []), seed])
    }
  }

  addExploration({name}: Situation, {orders, choices, states, isComplete, violations}: Exploration): void {
    const found = [...violations].map(([oracle, each]) => `${oracle} in ${each.orders} orders`).join(', ') || 'none'
    const size = isComplete ? `all ${orders}` : `the first ${orders}`
    this.#explored.push(`| ${name} | ${size} | ${choices} | ${states} | ${found} |`)
  }

  /** Seeds by profile and oracle. */
  get found(): [string, number[]][] {
    return [...this.#profiles].flatMap(([profile, {found}]) =>
      [...found].map(([oracle, seeds]): [string, number[]] => [`${profile} ${oracle}`, seeds]),
    )
  }

  /** As tables of Markdown. */
  get tables(): string {
    const rows = [...this.#profiles].map(([profile, {runs, operations, calls, faults, deliveries, found}]) => {
      const violations = [...found].map(([oracle, {length}]) => `${oracle} (${length})`).join(', ') || 'none'
      return `| \`${profile}\` | ${runs} | ${operations} | ${calls} | ${faults} | ${deliveries} | ${violations} |`
    })
    const sum = (field: 'runs' | 'operations' | 'calls' | 'faults' | 'deliveries') =>
      [...this.#profiles.values()].reduce((total, each) => total + each[field], 0)
    const seeds = [
      '| profile | seeds | operations | calls | faults | deliveries | violations (seeds) |',
      '|---|---|---|---|---|---|---|',
      ...rows,
      `| all | ${sum('runs')} | ${sum('operations')} | ${sum('calls')} | ${sum('faults')} | ${sum('deliveries')} | |`,
    ]
    const explored = [
      '| situation | orders played | choices | states of the table | violations |',
      '|---|---|---|---|---|',
      ...this.#explored,
    ]
    return [seeds, ...(this.#explored.length > 0 ? [explored] : [])].map(lines => lines.join('\n')).join('\n\n')
  }

  #of(profile: Profile): ProfileTotals {
    const known = this.#profiles.get(profile)
    if (known) return known
    const totals = {runs: 0, operations: 0, calls: 0, faults: 0, deliveries: 0, found: new Map<string, number[]>()}
    this.#profiles.set(profile, totals)
    return totals
  }
}

const BEGIN = '<!-- figures of the last full run: npm run simulate -- --write -->'
const END = '<!-- end of the figures -->'
const PAGE = new URL('../../docs/how-tested.md', import.meta.url)

/** Puts the figures of a run between the markers of the page. */
export async function writeFigures(tables: string): Promise<void> {
  const page = await readFile(PAGE, 'utf8')
  const [before = '', rest = ''] = page.split(BEGIN)
  const after = rest.slice(rest.indexOf(END) + END.length)
  await writeFile(PAGE, `${before}${BEGIN}\n\n${tables}\n\n${END}${after}`)
}
