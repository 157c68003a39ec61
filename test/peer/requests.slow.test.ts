import {expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {n} from '../../src/lib/schema/attribute-value.js'
import {usePeers} from './peers.js'
import {describeWithPeers, limit} from './python-client.js'

describeWithPeers.each(['0.10', '0.17'] as const)('requests of zae-limiter %s', release => {
  const peers = usePeers(release)
  const given = {limits: [limit('rpm', 40)]}

  it('S9 create a bucket with their own limits, until zael compares it with the configuration', async () => {
    const scene = await peers.scene()
    const {client} = scene
    await client.repository('set_limits', {entity_id: 'u', resource: 'gpt', limits: [limit('rpm', 10)]})
    expect(await client.acquire('u', 'gpt', {rpm: 1}, {...given, times: 3})).toMatchObject({admitted: 3})
    expect(await scene.bucketItem('u', 'gpt')).toMatchObject({b_rpm_cp: n(40_000), b_rpm_tk: n(37_000)})
    expect(await scene.ask('u', 'gpt', {rpm: 1}, 2)).toMatchObject({admitted: 2})
    expect(await scene.bucketItem('u', 'gpt')).toMatchObject({b_rpm_cp: n(10_000), b_rpm_tk: n(9_000)})
    // They change no existing bucket: 9 are left.
    expect(await client.acquire('u', 'gpt', {rpm: 1}, {...given, times: 12})).toMatchObject({admitted: 9})
    expect(await scene.bucketItem('u', 'gpt')).toMatchObject({b_rpm_cp: n(10_000), b_rpm_tk: n(0)})
  })

  it('S1 share their own limits with a limiter that has these as its default', async () => {
    const scene = await peers.scene()
    expect(await scene.client.acquire('u', 'gpt', {rpm: 1}, {...given, times: 30})).toMatchObject({admitted: 30})
    const defaultLimits = parseLimits(['rpm=40/min'])
    expect(await scene.ask('u', 'gpt', {rpm: 1}, 20, {defaultLimits})).toMatchObject({admitted: 10, refused: 10})
    expect(await scene.client.acquire('u', 'gpt', {rpm: 1}, given)).toMatchObject({admitted: 0, refused: 1})
  })

  it('may name a resource with a colon, except in 0.10', async () => {
    const scene = await peers.scene()
    await scene.configure({level: 'resource', resource: 'eu:gpt'}, 'rpm=2/min')
    expect(await scene.ask('u', 'eu:gpt', {rpm: 1})).toMatchObject({admitted: 1})
    // 0.10 checks the name only if the stored balance is too small.
    const {admitted, first} = await scene.client.acquire('v', 'eu:gpt', {rpm: 1})
    expect([admitted, first?.type]).toEqual(release === '0.10' ? [0, 'InvalidNameError'] : [1, undefined])
  })
})
