import {formatTokens} from '../../core/text/text.js'

/** Tokens as `tokensText` writes them, or the money that they stand for; parts of a millionth are dropped. */
export function amountText(tokens: number, unit: string | undefined, tokensText: (tokens: number) => string): string {
  return unit === undefined ? tokensText(tokens) : formatTokens(Math.floor(tokens), unit)
}
