import {describe, expect, it} from 'vitest'
import {rateLimited} from '../../src/lib/dynamo/rate-limit.js'
import type {Transport} from '../../src/lib/dynamo/transport.js'

/** A table that responds at once and reports the cost of each write; time passes only during pauses. */
class PacedScene {
  nowMs = 0
  consumed: {atMs: number; units: number}[] = []
  readonly inner: Transport = {
    send: async operation => {
      if (operation === 'PutItem') this.consumed.push({atMs: this.nowMs, units: 7})
      return {ConsumedCapacity: {CapacityUnits: 7}} as never
    },
  }
  readonly pace = {
    clock: () => this.nowMs,
    sleep: async (ms: number) => {
      this.nowMs += ms
    },
  }
}

describe('a rate limit', () => {
  it('holds over any period, except for one second of burst and one write', async () => {
    const scene = new PacedScene()
    const transport = rateLimited(scene.inner, {of: 'writes', unitsPerSecond: 50}, scene.pace)
    await Promise.all(Array.from({length: 300}, () => transport.send('PutItem', {TableName: 't', Item: {}})))
    const {consumed} = scene
    expect(consumed).toHaveLength(300)
    for (const [first, {atMs: from}] of consumed.entries()) {
      let units = 0
      for (const {atMs: to, units: cost} of consumed.slice(first)) {
        units += cost
        expect(units).toBeLessThanOrEqual(50 + 50 * ((to - from) / 1000) + 7)
      }
    }
    // The limit is used fully: 2,100 units at 50 per second take about 42 s.
    expect(scene.nowMs).toBeGreaterThan(38_000)
    expect(scene.nowMs).toBeLessThan(44_000)
  })

  it('does not delay reads, and requests the cost of every write', async () => {
    const scene = new PacedScene()
    const inputs: unknown[] = []
    const inner: Transport = {
      send: async (operation, input) => {
        inputs.push(input)
        return scene.inner.send(operation, input)
      },
    }
    const transport = rateLimited(inner, {of: 'writes', unitsPerSecond: 1}, scene.pace)
    await transport.send('PutItem', {TableName: 't', Item: {}})
    await transport.send('GetItem', {TableName: 't', Key: {}})
    expect(scene.nowMs).toBe(0)
    expect(inputs[0]).toMatchObject({ReturnConsumedCapacity: 'TOTAL'})
  })

  it('delays only reads if it limits reads', async () => {
    const scene = new PacedScene()
    const transport = rateLimited(scene.inner, {of: 'reads', unitsPerSecond: 7}, scene.pace)
    for (let at = 0; at < 10; at++) await transport.send('PutItem', {TableName: 't', Item: {}})
    expect(scene.nowMs).toBe(0)
    for (let at = 0; at < 10; at++) await transport.send('GetItem', {TableName: 't', Key: {}})
    expect(scene.nowMs).toBeGreaterThan(7000)
  })
})
