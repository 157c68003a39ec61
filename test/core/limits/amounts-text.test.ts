import {describe, expect, it} from 'vitest'
import {parseAmounts, tokensIn} from '../../../src/lib/core/limits/amount-text.js'

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
})
