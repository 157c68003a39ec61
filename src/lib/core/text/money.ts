/** A token is a millionth of the currency unit. */
export const MONEY_DECIMALS = 6

const SIGNS: ReadonlyMap<string, string> = new Map([
  ['USD', '$'],
  ['EUR', '€'],
  ['GBP', '£'],
  ['JPY', '¥'],
])

const CODE_OF_SIGN: ReadonlyMap<string, string> = new Map([...SIGNS].map(([code, sign]) => [sign, code]))

export function currencyOfSign(sign: string): string | undefined {
  return CODE_OF_SIGN.get(sign)
}

let known: ReadonlySet<string> | undefined

export function knownCurrencies(): ReadonlySet<string> {
  known ??= new Set(Intl.supportedValuesOf('currency'))
  return known
}

/** `$12.3k`, `-€1`, `<$0.01`, `500CHF`. */
export function withCurrency(amount: string, currency: string): string {
  const sign = SIGNS.get(currency)
  return sign === undefined ? `${amount}${currency}` : amount.replace(/^([<>]?-?)/, `$1${sign.replace('$', '$$$$')}`)
}

/** Exact: `$12.50`, `-€0.000001`, `500CHF`. Without `separators` it can be parsed as an amount of a limit. */
export function formatMoney(tokens: number, currency: string, {separators = true} = {}): string {
  return withCurrency(moneyDecimal(tokens, {separators}), currency)
}

/** Exact, in the currency unit: `12.50`, `-0.000001`, `500`. */
export function moneyDecimal(tokens: number, {separators = false} = {}): string {
  const digits = String(Math.abs(tokens)).padStart(MONEY_DECIMALS + 1, '0')
  const whole = digits.slice(0, -MONEY_DECIMALS)
  const decimals = digits.slice(-MONEY_DECIMALS).replace(/0+$/, '')
  const shownWhole = separators ? whole.replace(/\B(?=(\d{3})+$)/g, ',') : whole
  const amount = decimals === '' ? shownWhole : `${shownWhole}.${decimals.padEnd(2, '0')}`
  return `${tokens < 0 ? '-' : ''}${amount}`
}
