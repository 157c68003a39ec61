/** Money is counted in whole tokens too: one token is a millionth of the unit of a currency. */

/** Decimals of an amount of money that a token can express. */
export const MONEY_DECIMALS = 6

/** Currencies with a sign of their own in the syntax of limits; others are written with their code: `500CHF`. */
const SIGNS: ReadonlyMap<string, string> = new Map([
  ['USD', '$'],
  ['EUR', '€'],
  ['GBP', '£'],
  ['JPY', '¥'],
])

const CODE_OF_SIGN: ReadonlyMap<string, string> = new Map([...SIGNS].map(([code, sign]) => [sign, code]))

/** The code of a currency by its sign: `$` is `USD`. */
export function currencyOfSign(sign: string): string | undefined {
  return CODE_OF_SIGN.get(sign)
}

let known: ReadonlySet<string> | undefined

/** The codes of ISO 4217 that this runtime knows, such as `USD`. */
export function knownCurrencies(): ReadonlySet<string> {
  known ??= new Set(Intl.supportedValuesOf('currency'))
  return known
}

/** An amount as it is written in a currency: `$12.3k`, `-€1`, `<$0.01`, `500CHF`. */
export function withCurrency(amount: string, currency: string): string {
  const sign = SIGNS.get(currency)
  return sign === undefined ? `${amount}${currency}` : amount.replace(/^([<>]?-?)/, `$1${sign.replace('$', '$$$$')}`)
}

/**
 * Tokens as money, exactly: `$12.50`, `-€0.000001`, `500CHF`. Cents are shown if there are any. `separators` groups the
 * digits for people; without it the text can be read back as the amount of a limit.
 */
export function formatMoney(tokens: number, currency: string, {separators = true} = {}): string {
  const digits = String(Math.abs(tokens)).padStart(MONEY_DECIMALS + 1, '0')
  const whole = digits.slice(0, -MONEY_DECIMALS)
  const decimals = digits.slice(-MONEY_DECIMALS).replace(/0+$/, '')
  const shownWhole = separators ? whole.replace(/\B(?=(\d{3})+$)/g, ',') : whole
  const amount = decimals === '' ? shownWhole : `${shownWhole}.${decimals.padEnd(2, '0')}`
  return withCurrency(`${tokens < 0 ? '-' : ''}${amount}`, currency)
}
