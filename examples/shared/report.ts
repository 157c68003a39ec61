import {setTimeout as sleep} from 'node:timers/promises'
import type {NamespaceRepository} from 'zael'
import {count, paint, say, table} from '../../docs/demo/screen.js'

/** Header fields about limits, from zael and from the provider. */
const FIELDS = /^(retry-after|ratelimit|ratelimit-policy|x-ratelimit-.*|anthropic-ratelimit-.*)$/

/** Prints the status and the balance left after a request; for a refusal, all fields and the body. */
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
  /** Default: all resources. */
  readonly resource?: string
  readonly limit: string
  /** The expected charge: tokens on the provider's bill, or answered requests. */
  readonly expected: number
  readonly unit: string
}

/** Maximum delay of usage on a busy machine. */
const COUNTED_WITHIN_MS = 60_000

/** Compares the expected charges with the usage that the aggregator counted from the table's stream. */
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
