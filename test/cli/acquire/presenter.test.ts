import {describe, expect, it} from 'vitest'
import {acquireJson, acquireLines, amountWords, retryText, whyCommand} from '../../../src/lib/cli/acquire/presenter.js'
import {checkWait, withDefaultWait, withReadableAmounts} from '../../../src/lib/cli/acquire/run.js'
import type {LimitState} from '../../../src/lib/core/limits/limit-state.js'
import type {AcquireAttempt} from '../../../src/lib/insight/why/attempt.js'
import {RequestTooLarge} from '../../../src/lib/limiter/refusal/errors.js'

const status = (change: Partial<LimitState>): LimitState => ({
  name: 'rpm',
  entity: 'user-1',
  resource: 'gpt-4',
  level: 'entity',
  source: 'resource',
  capacity: 100,
  refillAmount: 100,
  refillPeriodSeconds: 60,
  available: 99,
  requested: 1,
  fullAfterMs: 60_000,
  exceeded: false,
  retryAfterMs: 0,
  ...change,
})

const tried = (attempt: Partial<AcquireAttempt>, dryRun = false) => ({
  entity: 'user-1',
  resource: 'gpt-4',
  consume: {rpm: 1, tpm: 5000},
  dryRun,
  attempt: {
    admitted: true,
    isMetered: true,
    isBypassed: false,
    parents: [],
    waitedMs: 0,
    retryAfterMs: 0,
    statuses: [status({}), status({name: 'tpm', requested: 5000, available: -12_000, capacity: 20_000})],
    ...attempt,
  },
})

describe('--wait', () => {
  it.each([
    ['a b rpm=1 --wait', 'a b rpm=1 --wait=60s'],
    ['a b rpm=1 --wait --json', 'a b rpm=1 --wait=60s --json'],
    ['--wait a b rpm=1', '--wait=60s a b rpm=1'],
    ['--wait 5min a b rpm=1', '--wait 5min a b rpm=1'],
    ['a b rpm=1 --wait=5s', 'a b rpm=1 --wait=5s'],
    ['a b rpm=1 -- --wait', 'a b rpm=1 -- --wait'],
    ['a b rpm=1', 'a b rpm=1'],
  ])('reads "%s" as "%s"', (typed, understood) => {
    expect(withDefaultWait(typed.split(' ')).join(' ')).toBe(understood)
  })

  it('rejects a value that is not a duration, and names valid ones', () => {
    const hint = 'Write a whole number and a unit: 500ms, 2s, 15min, 24h, 7d.'
    const check = (typed: string) => checkWait(typed.split(' '), typed.split(' ').slice(2))
    expect(() => check('a b rpm=1 --wait 60')).toThrow(
      expect.objectContaining({message: '"60" is not a duration.', hint}),
    )
    for (const typed of ['a b rpm=1 --wait', 'a b --wait rpm=1', 'a b rpm=1 --wait 5s', 'a b 60']) check(typed)
  })
})

it('groups the digits of a request that is too large', () => {
  const error = withReadableAmounts(new RequestTooLarge('user-1', 'gpt-4', 'tpm', 500_000, 50_000), undefined)
  const message = 'A request of 500,000 tpm can never be admitted: user-1 is limited to 50,000 for gpt-4.'
  expect(error).toMatchObject({message, details: {requested: 500_000, capacity: 50_000}})
})

it('never rounds a wait down', () => {
  expect(retryText(61_001)).toBe('Waiting for 1 min 2 s')
})

it('joins amounts with commas and "and"', () => {
  expect(amountWords({rpm: 1}, undefined)).toBe('1 rpm')
  expect(amountWords({rpm: 1, tpm: 20_000}, undefined)).toBe('1 rpm and 20,000 tpm')
  expect(amountWords({a: 1, b: 2, c: 3}, undefined)).toBe('1 a, 2 b and 3 c')
})

describe('the outcome of a request', () => {
  it('shows charges and balances of an admitted request', async () => {
    expect(await acquireLines(tried({}), 80)).toEqual([
      'Admitted: user-1 was charged 1 rpm and 5,000 tpm of gpt-4',
      '',
      'LIMIT  ENTITY  REQUESTED     LEFT  CAPACITY  READY IN',
      'rpm    user-1          1       99       100  now',
      'tpm    user-1      5,000  -12,000    20,000  now',
    ])
  })

  it('shows amounts of money, also in the command that explains a refusal', async () => {
    const usd = status({name: 'usd', requested: 50_000, available: -1_500_000, capacity: 500_000_000})
    const statuses = [status({}), usd]
    const money = {...tried({statuses}), consume: {usd: 50_000, rpm: 1}, units: new Map([['usd', 'USD']])}
    const lines = await acquireLines(money, 80)
    expect(lines[0]).toBe('Admitted: user-1 was charged 1 rpm and $0.05 usd of gpt-4')
    expect(lines.at(-1)).toMatch(/^usd +user-1 +\$0\.05 +-\$1\.50 +\$500 +now$/)
    expect(whyCommand(money)).toBe("zael why user-1 gpt-4 'usd=$0.05' rpm=1")
    expect(acquireJson(money)).toMatchObject({consume: {usd: 50_000}, limits: [{}, {available: -1_500_000}]})
  })

  it('shows the charge of a parent that has fewer limits', async () => {
    const tpm = status({name: 'tpm', requested: 5000})
    const statuses = [status({}), tpm, status({level: 'parent', entity: 'team-1'})]
    expect((await acquireLines(tried({parents: ['team-1'], statuses, waitedMs: 2000}), 80))[0]).toBe(
      'Admitted after 2 s: user-1 was charged 1 rpm and 5,000 tpm of gpt-4; its parent team-1 was charged 1 rpm',
    )
  })

  it('names the parent only for its own limits', async () => {
    const parent = 'team-1'
    const usd = status({name: 'usd', level: 'parent', entity: parent})
    const title = async (attempt: Partial<AcquireAttempt>) =>
      (await acquireLines(tried({parents: [parent], ...attempt}, attempt.isMetered === undefined), 80))[0]
    expect(await title({statuses: [status({}), usd], isMetered: true})).toBe(
      'Admitted: user-1 was charged 1 rpm of gpt-4; its parent team-1 was charged 1 usd',
    )
    expect(await title({statuses: [usd]})).toBe(
      'Would be admitted: team-1, the parent of user-1, would be charged 1 usd of gpt-4',
    )
    expect(await title({statuses: [status({})], isMetered: true})).toBe('Admitted: user-1 was charged 1 rpm of gpt-4')
    expect(await title({statuses: [], isMetered: true})).toBe('Admitted: 1 rpm and 5,000 tpm of gpt-4 was charged')
    expect(await title({statuses: [status({}), usd], isBypassed: true, isMetered: true})).toBe(
      'Admitted: gpt-4 is bypassed for user-1; 1 rpm was counted, not charged; its parent team-1 was charged 1 usd',
    )
    expect(await title({statuses: [status({})], isBypassed: true, isMetered: true})).toBe(
      'Admitted: gpt-4 is bypassed for user-1; 1 rpm was counted, not charged',
    )
  })

  it('shows the limit that refused the request, and the wait', async () => {
    const statuses = [status({exceeded: true, available: 0, retryAfterMs: 590})]
    const refused = tried({admitted: false, retryAfterMs: 590, statuses})
    expect(await acquireLines(refused, 80)).toEqual([
      'Refused: user-1 cannot consume 1 rpm and 5,000 tpm of gpt-4 now. Retry in 590 ms.',
      '',
      'LIMIT  ENTITY  REQUESTED  LEFT  CAPACITY  READY IN',
      'rpm    user-1          1     0       100  590 ms',
    ])
    expect(whyCommand(refused)).toBe('zael why user-1 gpt-4 rpm=1 tpm=5000')
  })

  it('marks a dry run, and an admission without a charge', async () => {
    expect((await acquireLines(tried({}, true), 80))[0]).toBe(
      'Would be admitted: user-1 would be charged 1 rpm and 5,000 tpm of gpt-4',
    )
    expect(await acquireLines(tried({isMetered: false, statuses: []}), 80)).toEqual([
      'Admitted without a charge, because the table is unavailable',
    ])
  })

  it('has the same JSON keys for every outcome', () => {
    const keys = (attempt: Partial<AcquireAttempt>) => Object.keys(acquireJson(tried(attempt)))
    expect(keys({admitted: false, parents: ['team-1']})).toEqual(keys({isMetered: false, statuses: []}))
    expect(acquireJson(tried({})).limits[0]).toEqual({
      name: 'rpm',
      level: 'entity',
      entity: 'user-1',
      requested: 1,
      available: 99,
      capacity: 100,
      exceeded: false,
      retryAfterMs: 0,
    })
  })
})
