import {describe, expect, it} from 'vitest'
import {formatAmount, parseAmounts, tokensIn} from '../../../src/lib/core/limits/amount-text.js'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'

const IN_DOLLARS = new Map([['usd', 'USD']])

describe('amounts as typed', () => {
  it.each([
    [['rpm=1'], {rpm: 1}],
    [['rpm:1', 'tpm=20k'], {rpm: 1, tpm: 20_000}],
    [['tpm=2K', 'tpd=3M'], {tpm: 2000, tpd: 3_000_000}],
    [['usd=$0.05'], {usd: 50_000}],
    [['usd=0.000001USD', 'rpm=1'], {usd: 1, rpm: 1}],
    [['usd=$1.5k'], {usd: 1_500_000_000}],
  ])('%j', (texts, tokens) => {
    expect(tokensIn(parseAmounts(texts), IN_DOLLARS)).toEqual(tokens)
  })

  it.each([
    ['rpm', 'request.syntax', 'it is not NAME=AMOUNT.'],
    ['rpm=', 'request.syntax', 'the amount is missing.'],
    ['=1', 'request.syntax', 'it is not NAME=AMOUNT.'],
    ['rpm=1/min', 'request.syntax', 'the amount "1/min" is not a number such as'],
    ['rpm=-1', 'request.syntax', 'the amount "-1" is not a number such as'],
    ['rpm=1.5', 'request.syntax', 'the amount "1.5" is not a whole number of tokens.'],
    ['rpm=0', 'request.syntax', 'the amount must be more than 0.'],
    ['usd=$0.0000001', 'request.syntax', 'is not a whole number of millionths of the unit.'],
    ['usd=1USX', 'request.syntax', '"USX" is not a currency code'],
    ['tpm=1 tpm=2', 'request.syntax', 'tpm is given twice.'],
    ['wcu=1', 'name.invalid', 'it is reserved'],
    [`rpm=${Number.MAX_SAFE_INTEGER}`, 'request.syntax', 'is above the maximum'],
    ['usd=$1,500', 'request.syntax', 'write $1500, without a comma.'],
    ['tpm=1,000,000', 'request.syntax', 'write 1000000 or 1M, without a comma.'],
    ['usd=€1', 'limit.unit', 'The limit "usd" is counted in USD, not in EUR.'],
    ['usd=5', 'limit.unit', 'The limit "usd" is counted in USD, not in tokens.'],
    ['rpm=$1', 'limit.unit', 'The limit "rpm" is counted in tokens, not in USD.'],
  ])('rejects %s', (texts, code, why) => {
    const refusal = expect.objectContaining({code, kind: 'usage', message: expect.stringContaining(why)})
    expect(() => tokensIn(parseAmounts(texts.split(' ')), IN_DOLLARS)).toThrow(refusal)
  })

  it('suggests the same amount in millionths for a limit that counts tokens', () => {
    const hint = 'Write rpm=50000 if its tokens are millionths of a USD.'
    expect(() => tokensIn(parseAmounts(['rpm=$0.05']), IN_DOLLARS)).toThrow(expect.objectContaining({hint}))
  })

  it.each([
    // As typed, and as a shell passes it on.
    ['usd=$5', 'usd='],
    ['usd=$50', 'usd=0'],
    ['usd=$0.05', 'usd=bash.05'],
    ['usd=$0.05', 'usd=/bin/bash.05'],
    ['usd=$500/month@UTC', 'usd=00/month@UTC'],
    ['usd=$5/month@UTC', 'usd=/month@UTC'],
    ['usd=$1500/month', 'usd=500/month'],
    ['usd-eu=$5', 'usd-eu='],
    ['budget=$5', 'budget='],
    ['budget=$500/month@UTC', 'budget=00/month@UTC'],
    ['budget=$5/month@UTC', 'budget=/month@UTC'],
    ['budget=$0.05', 'budget=-zsh.05'],
  ])('names the shell and single quotes for %s, which arrives as %s', (typed, text) => {
    const name = typed.slice(0, typed.indexOf('='))
    const hint = (example: string) => {
      const quotes = `A shell replaces $ and the digit after it: use single quotes, such as '${name}=${example}'. `
      return expect.objectContaining({hint: expect.stringContaining(quotes)})
    }
    expect(() => parseAmounts([text])).toThrow(hint('$5'))
    expect(() => parseLimits([text])).toThrow(hint('$500/month@UTC'))
  })

  it.each(['rpm=abc', 'rpm=0', 'usd=$x', 'usd=$0', 'usd=5.5USX', 'rpm=1/dya', '=5', 'rpm'])(
    'does not name the shell for %s',
    text => {
      const hint = expect.objectContaining({hint: expect.not.stringContaining('shell')})
      expect(() => parseAmounts([text])).toThrow(hint)
      expect(() => parseLimits([text])).toThrow(hint)
    },
  )

  it('quotes money in examples for a shell', () => {
    expect(() => parseAmounts(['rpm=x'])).toThrow(expect.objectContaining({hint: expect.stringMatching(/ 'usd=\$/)}))
    expect(() => parseLimits(['rpm=x'])).toThrow(expect.objectContaining({hint: expect.stringMatching(/ 'usd=\$/)}))
    expect(() => parseLimits(['usd=$500/month'])).toThrow('needs a time zone, as in $500/month@UTC.')
  })
})

describe('an amount as text', () => {
  it.each([
    [999, '999'],
    [1000, '1k'],
    [1500, '1500'],
    [200_000, '200k'],
    [1_000_000, '1M'],
    [6_400_000, '6.4M'],
    [1_230_000, '1.23M'],
    [1_234_000, '1234k'],
    [1_234_567, '1234567'],
  ])('%d is %s, and reads as the same', (tokens, text) => {
    expect(formatAmount(tokens)).toBe(text)
    expect(tokensIn(parseAmounts([`tpm=${text}`]), IN_DOLLARS)).toEqual({tpm: tokens})
  })
})
