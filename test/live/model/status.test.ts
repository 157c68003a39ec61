import {describe, expect, it} from 'vitest'
import type {FindReading, Reading} from '../../../src/lib/live/model/model.js'
import {NO_REQUESTS, type RequestCounts} from '../../../src/lib/live/model/request-counts.js'
import {statusAt} from '../../../src/lib/live/model/status.js'
import {totalsAt} from '../../../src/lib/live/model/totals.js'
import {bucketOf, READ_AT_MS, readingOf} from '../support.js'

const SLOW = {capacity: 1000, refillPerSecond: 0.001}

const reading = (id: string, left: number, rest: Partial<Reading> = {}): Reading =>
  readingOf(bucketOf(id, {limits: {tpm: {...SLOW, left}}}), rest)

/** A child and its parent, and the status of the child. */
function childOf(parent: Reading, child: Reading) {
  return statusAt({...child, chargedTo: parent.id}, READ_AT_MS, id => (id === parent.id ? parent : undefined))
}

const worstOf = (readings: readonly Reading[], nowMs: number, find?: FindReading): Reading | undefined =>
  totalsAt(readings, nowMs, find).worst

const refused = (counts: Partial<RequestCounts>) => ({
  requests: {...NO_REQUESTS, lastRefusedAtMs: READ_AT_MS - 5000, ...counts},
})

describe('the status of a bucket', () => {
  it('is over when its average request does not fit, whatever its balance', () => {
    expect(statusAt(reading('a#b', 600, {typical: [601]}), READ_AT_MS)).toMatchObject({
      status: 'over',
      refusedBy: 'entity',
    })
    expect(statusAt(reading('a#b', 600, {typical: [600]}), READ_AT_MS)).toMatchObject({
      status: 'ok',
      refusedBy: undefined,
    })
    // Between readings it fills up.
    const filling = readingOf(bucketOf('a#b', {limits: {tpm: {capacity: 1000, left: 0}}}), {typical: [200]})
    expect(statusAt(filling, READ_AT_MS + 1999).status).toBe('over')
    expect(statusAt(filling, READ_AT_MS + 2000).status).toBe('ok')
  })

  it('takes the average request of each limit by its name', () => {
    const limits = {rpm: {...SLOW, left: 5}, tpm: {...SLOW, left: 400}}
    const of = (typical: number[]) => statusAt(readingOf(bucketOf('a#b', {limits}), {typical}), READ_AT_MS)
    expect(of([1, 400])).toMatchObject({status: 'near', worst: {name: 'rpm'}})
    expect(of([1, 401])).toMatchObject({status: 'over', worst: {name: 'tpm'}})
    expect(of([6, 400])).toMatchObject({status: 'over', worst: {name: 'rpm'}})
  })

  it('is over when its parent has too little for its average request, and names the parent as refusing', () => {
    const child = reading('child#r', 900, {typical: [50]})
    expect(childOf(reading('team#r', 49), child)).toMatchObject({status: 'over', refusedBy: 'parent'})
    expect(childOf(reading('team#r', 50), child)).toMatchObject({status: 'ok', refusedBy: undefined})
    expect(childOf(reading('team#r', 0), reading('child#r', 0))).toMatchObject({refusedBy: 'entity'})
    expect(childOf(reading('team#r', 0, {isGone: true}), child).status).toBe('ok')
    expect(statusAt({...child, chargedTo: 'unwatched#r'}, READ_AT_MS, () => undefined).status).toBe('ok')
  })

  it('L6 is over when an in-flight limit has no free slot, here or at the parent', () => {
    const withSlots = (id: string, free: number) => {
      const slots = {parallel: {capacity: 20, free}}
      return readingOf(bucketOf(id, {limits: {tpm: {...SLOW, left: 500}}, slots}), {typical: [50]})
    }
    const of = (free: number) => statusAt(withSlots('a#b', free), READ_AT_MS)
    expect(of(20)).toMatchObject({status: 'ok', worst: {name: 'tpm'}})
    expect(of(4)).toMatchObject({status: 'ok', worst: {name: 'parallel', left: 0.2, emptyInMs: null}})
    expect(of(3)).toMatchObject({status: 'near', worst: {name: 'parallel'}})
    expect(of(0)).toMatchObject({status: 'over', refusedBy: 'entity', worst: {name: 'parallel', emptyInMs: 0}})
    expect(of(-2)).toMatchObject({status: 'over', worst: {left: -0.1}})
    const child = reading('child#r', 900, {typical: [50]})
    expect(childOf(withSlots('team#r', 0), child)).toMatchObject({status: 'over', refusedBy: 'parent'})
    expect(childOf(withSlots('team#r', 1), child).status).toBe('ok')
    const bypassed = {...withSlots('a#b', 0), bypassUntilMs: READ_AT_MS + 1}
    expect(statusAt(bypassed, READ_AT_MS).status).toBe('ok')
    expect(totalsAt([withSlots('a#b', -2)], READ_AT_MS)).toMatchObject({over: 1, inDebt: 0})
  })

  it('is disabled where a switch refuses every request, whatever its balance', () => {
    expect(statusAt(reading('a#b', 900, {isDisabled: true}), READ_AT_MS)).toMatchObject({
      status: 'disabled',
      refusedBy: undefined,
      worst: {status: 'ok'},
    })
    expect(statusAt(reading('a#b', 0, {isDisabled: true}), READ_AT_MS).status).toBe('disabled')
    expect(statusAt(reading('a#b', 0, {isDisabled: true, isGone: true}), READ_AT_MS).status).toBe('gone')
    // A switch of the parent also refuses requests of its children.
    expect(childOf(reading('team#r', 900, {isDisabled: true}), reading('child#r', 900))).toMatchObject({
      status: 'over',
      refusedBy: 'parent',
    })
    // Disabling is deliberate, so it ranks below failures.
    const near = reading('near#r', 100)
    expect(worstOf([reading('off#r', 0, {isDisabled: true}), near], READ_AT_MS)).toBe(near)
  })

  it('does not depend on limits that only the parent has, or that are soft there', () => {
    const child = reading('child#r', 900)
    const of = (limits: Parameters<typeof bucketOf>[1]['limits']) =>
      childOf(readingOf(bucketOf('team#r', {limits})), child).status
    expect(of({other: {...SLOW, left: 0}})).toBe('ok')
    expect(of({tpm: {...SLOW, left: 0, soft: true}})).toBe('ok')
    expect(of({tpm: {...SLOW, left: 0}})).toBe('over')
  })

  it('is over while requests are refused, although the next may fit', () => {
    const of = (counts: Partial<RequestCounts>) => statusAt(reading('a#b', 900, refused(counts)), READ_AT_MS)
    expect(of({refused: 3})).toMatchObject({status: 'over', refusedBy: 'entity'})
    expect(of({refusedByParent: 3})).toMatchObject({status: 'over', refusedBy: 'parent'})
    const accounts = new Map([['org#models', 2]])
    expect(of({refusedByParent: 3, accounts})).toMatchObject({status: 'over', refusedBy: 'provider'})
    expect(of({refusedByParent: 5, accounts}).refusedBy).toBe('parent')
    const rates = (own: number, byParent: number) => ({refusedPerSecond: {own, byParent}, refused: 9})
    expect(of(rates(1, 2)).refusedBy).toBe('parent')
    expect(of(rates(2, 1)).refusedBy).toBe('entity')
    expect(of({refused: 3, lastRefusedAtMs: READ_AT_MS - 60_000})).toMatchObject({status: 'ok', refusedBy: undefined})
  })

  it('is not over while a bypass admits every request, there or at the parent', () => {
    const bypassed = {bypassUntilMs: READ_AT_MS + 1000}
    const empty = reading('a#b', 0, {...bypassed, ...refused({refused: 3})})
    expect(statusAt(empty, READ_AT_MS)).toMatchObject({status: 'ok', refusedBy: undefined, worst: {name: 'tpm'}})
    expect(statusAt(empty, READ_AT_MS + 1000)).toMatchObject({status: 'over', refusedBy: 'entity'})
    // Nothing is taken meanwhile, so it does not run empty.
    const used = reading('a#b', 100, {...bypassed, ratePerSecond: new Map([['tpm', 10]])})
    expect(statusAt(used, READ_AT_MS).worst?.emptyInMs).toBeNull()
    expect(statusAt(used, READ_AT_MS + 1000).worst?.emptyInMs).toBeGreaterThan(0)
    const child = reading('child#r', 900, {typical: [50]})
    expect(childOf(reading('team#r', 0, bypassed), child).status).toBe('ok')
    // Its own bypass does not hold for the limits of its parent.
    expect(childOf(reading('team#r', 0), {...child, ...bypassed})).toMatchObject({status: 'over', refusedBy: 'parent'})
  })

  it('decides which bucket is worst', () => {
    const [child, team] = [reading('child#r', 900, {chargedTo: 'team#r'}), reading('team#r', 0)]
    const near = reading('near#r', 100)
    const find = (id: string) => (id === 'team#r' ? team : undefined)
    expect(worstOf([near, child], READ_AT_MS, find)?.id).toBe('child#r')
    expect(worstOf([near, child, team], READ_AT_MS, find)?.id).toBe('team#r')
    expect(worstOf([near, child], READ_AT_MS)?.id).toBe('near#r')
  })
})
