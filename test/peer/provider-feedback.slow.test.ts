import {beforeEach, describe, expect, it} from 'vitest'
import type {ProviderFeedback} from '../../src/lib/repository/operations/provider-feedback.js'
import {n} from '../../src/lib/schema/attribute-value.js'
import {type PeerScene, usePeers} from './peers.js'
import {describeWithPeers, limit, type Release} from './python-client.js'

const RELEASES: readonly Release[] = ['0.10', '0.17']

/** The entity and resource of all tests, and its limit: 60 a minute. */
const ORGANISATION = {entity: 'provider-1', resource: 'gpt'}

describeWithPeers('provider feedback beside the Python clients', () => {
  describe.each(RELEASES)('zae-limiter %s', release => {
    const peers = usePeers(release)
    let scene: PeerScene
    beforeEach(async () => {
      scene = await peers.scene()
      await scene.client.repository('set_limits', {
        entity_id: ORGANISATION.entity,
        resource: ORGANISATION.resource,
        limits: [limit('rpm', 60)],
      })
    })

    const python = (times: number) =>
      scene.client.acquire(ORGANISATION.entity, ORGANISATION.resource, {rpm: 1}, {times})
    const zael = (times: number) => scene.ask(ORGANISATION.entity, ORGANISATION.resource, {rpm: 1}, times)
    const report = async (feedback: Omit<ProviderFeedback, 'entity' | 'resource'>) => {
      await using limiter = scene.limiter({sleep: async () => {}})
      return limiter.reportProviderLimits({...ORGANISATION, ...feedback})
    }
    const item = () => scene.bucketItem(ORGANISATION.entity, ORGANISATION.resource)

    it('admits only the rest in Python and zael, and refills from there (S2)', async () => {
      expect(await python(1)).toMatchObject({admitted: 1})
      expect(await report({left: {rpm: 5}})).toEqual({lowered: ['rpm']})
      expect(await item()).toMatchObject({b_rpm_tk: n(5000), b_rpm_tc: n(1000), told_rpm: {S: expect.any(String)}})
      expect(await python(3)).toMatchObject({admitted: 3})
      expect(await zael(5)).toMatchObject({admitted: 2, refused: 3})
      expect((await python(1)).admitted).toBe(0)
      await scene.pass(10_000)
      expect((await python(20)).admitted).toBe(10)
      expect(await item()).toMatchObject({b_rpm_tc: n(16_000)})
    })

    it('holds Python back until the reported instant by a debt', async () => {
      await python(1)
      await report({refused: {consume: {rpm: 1}, retryAfterMs: 5000}})
      expect(await item()).toMatchObject({b_rpm_tk: n(-4000)})
      await scene.pass(4000)
      expect((await python(1)).admitted).toBe(0)
      await scene.pass(1001)
      expect((await python(2)).admitted).toBe(1)
    })

    it('survives charges, refunds, refills and reads by Python', async () => {
      await python(1)
      await report({left: {rpm: 30}})
      const {told_rpm: feedback} = await item()
      await scene.client.acquire(ORGANISATION.entity, ORGANISATION.resource, {rpm: 4}, {rollBack: true})
      await scene.pass(5000)
      await scene.client.acquire(ORGANISATION.entity, ORGANISATION.resource, {rpm: 4}, {adjust: {rpm: 2}})
      expect((await item()).told_rpm).toEqual(feedback)
      const buckets = await scene.client.repository<object[]>('get_buckets', {
        entity_id: ORGANISATION.entity,
        resource: ORGANISATION.resource,
      })
      expect(JSON.stringify(buckets)).toContain('rpm')
      expect(JSON.stringify(buckets)).not.toContain('told')
    })

    it('lowers the balance after writes of Python (S1)', async () => {
      await python(20)
      await scene.pass(3000)
      await python(2)
      expect(await report({left: {rpm: 50}})).toEqual({lowered: []})
      expect(await report({left: {rpm: 10}})).toEqual({lowered: ['rpm']})
      expect((await python(15)).admitted).toBe(10)
      expect(await item()).toMatchObject({b_rpm_tc: n(32_000)})
    })
  })
})
