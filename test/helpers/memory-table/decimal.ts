/** A number of DynamoDB: `digits` · 10^-`scale`, exactly. */
interface Decimal {
  readonly digits: bigint
  readonly scale: number
}

/** Digits that DynamoDB keeps of a number. */
const MOST_DIGITS = 38

/** Integers of up to 15 digits are exact as JavaScript numbers. */
const SMALL = /^-?\d{1,15}$/
const CANONICAL = /^(?:0|-?[1-9]\d{0,37})$/
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/

/** A number as stored: without plus, exponent or redundant zeros; `undefined` if invalid. */
export function canonicalNumber(text: string): string | undefined {
  if (CANONICAL.test(text)) return text
  if (!NUMBER.test(text)) return undefined
  const formatted = format(parse(text))
  return formatted.replace(/\D/g, '').replace(/^0+|0+$/g, '').length > MOST_DIGITS ? undefined : formatted
}

export function compareNumbers(a: string, b: string): number {
  if (SMALL.test(a) && SMALL.test(b)) return Number(a) - Number(b)
  const [x, y] = aligned(parse(a), parse(b))
  return x < y ? -1 : x > y ? 1 : 0
}

export function addNumbers(a: string, b: string): string {
  if (SMALL.test(a) && SMALL.test(b)) return String(Number(a) + Number(b))
  const [x, y, scale] = aligned(parse(a), parse(b))
  return format({digits: x + y, scale})
}

export function subtractNumbers(a: string, b: string): string {
  return addNumbers(a, b.startsWith('-') ? b.slice(1) : `-${b}`)
}

function parse(text: string): Decimal {
  const [, sign, whole = '', fraction = '', exponent = '0'] =
    /^([+-]?)(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?$/.exec(text) ?? []
  const scale = fraction.length - Number(exponent)
  const digits = BigInt(`${whole}${fraction}`) * (sign === '-' ? -1n : 1n)
  return scale >= 0 ? {digits, scale} : {digits: digits * 10n ** BigInt(-scale), scale: 0}
}

function aligned(a: Decimal, b: Decimal): [bigint, bigint, number] {
  const scale = Math.max(a.scale, b.scale)
  const scaled = (each: Decimal) => each.digits * 10n ** BigInt(scale - each.scale)
  return [scaled(a), scaled(b), scale]
}

function format({digits, scale}: Decimal): string {
  if (scale === 0) return String(digits)
  const text = String(digits < 0n ? -digits : digits).padStart(scale + 1, '0')
  const fraction = text.slice(-scale).replace(/0+$/, '')
  const whole = text.slice(0, -scale)
  const sign = digits < 0n ? '-' : ''
  return fraction === '' ? `${digits === 0n ? '' : sign}${whole}` : `${sign}${whole}.${fraction}`
}
