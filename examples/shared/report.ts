import {setTimeout as sleep} from 'node:timers/promises'
import type {NamespaceRepository} from 'zael'
import {count, paint, say, table} from '../../docs/demo/screen.js'

/** What an answer tells of limits, zael's and the provider's. */
const FIELDS = /^(retry-after|ratelimit|ratelimit-policy|x-ratelimit-.*|anthropic-ratelimit-.*)$/

/** Shows what became of a request: what is left after it, and of a refusal all fields and the body. */
export async function showAnswer(who: string, what: string, response: Response, tokens?: number): Promise<void> {
  const isOk = response.ok
  const used = tokens === undefined ? '' : `, the provider's usage: ${count(tokens)} tokens`
  say(`   ${paint(isOk ? 'green' : 'yellow', String(response.status))} ${who}: ${what}${used}`)
  const fields = [...response.headers].filter(([name]) => FIELDS.test(name))
  for (const [name, value] of fields) {
    if (!isOk || name === 'ratelimit') say(`       ${paint('dim', `${name}: ${value}`)}`)
  }
  if (!isOk) say(`       ${paint('dim', await response.text())}`)
}

/** One line of the final account. */
export interface Account {
  readonly entity: string
  /** Default: all. */
  readonly resource?: string
  readonly limit: string
  /** What should have been charged: tokens on the provider's bill, or requests that were answered. */
  readonly expected: number
  readonly unit: string
}

/** How long the table's stream may take on a busy machine. */
const COUNTED_WITHIN_MS = 60_000

/** Compares what should have been charged with the usage that the aggregator has counted from the table's stream. */
export async function showAccounts(namespace: NamespaceRepository, accounts: readonly Account[]): Promise<void> {
  const rows: string[][] = []
  let isExact = true
  for (const account of accounts) {
    const charged = await chargedFor(namespace, account)
    isExact &&= charged === account.expected
    rows.push([account.entity, account.unit, count(account.expected), count(charged)])
  }
  table([['who', 'what', 'used', 'charged'], ...rows])
  say(isExact ? '   Everybody was charged exactly what was used.' : '   Not everything has been counted so far.')
}

async function chargedFor(
  namespace: NamespaceRepository,
  {entity, resource, limit, expected}: Account,
): Promise<number> {
  const endMs = performance.now() + COUNTED_WITHIN_MS
  for (;;) {
    const {limits} = await namespace.usageTotals({entity, ...(resource && {resource})})
    const charged = limits[limit]?.total ?? 0
    if (charged === expected || performance.now() > endMs) return charged
    await sleep(100)
  }
}
