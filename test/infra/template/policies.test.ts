import {beforeAll, describe, expect, it} from 'vitest'
import {neededActions} from '../../../src/lib/infra/doctor/permission-checks.js'
import {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import {Buckets} from '../../../src/lib/repository/buckets/buckets.js'
import {Entities} from '../../../src/lib/repository/entities/entities.js'
import {Configs} from '../../../src/lib/repository/limits/configs.js'
import {Provisioner} from '../../../src/lib/repository/limits/provisioner.js'
import {Namespaces} from '../../../src/lib/repository/namespaces/namespaces.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import {Audit} from '../../../src/lib/repository/table/audit.js'
import {Usage} from '../../../src/lib/repository/usage/usage.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {recordAggregator} from './aggregator-journey.js'
import type {Authorisation} from './authorisations.js'
import {isAllowed} from './iam.js'
import {type Journeys, type Recorded, recordJourneys} from './journeys.js'
import {inRegistry, isWrite, lets, POLICIES, possible, refused, TABLE_ARN} from './policy-check.js'

const {ACQ, FULL, READ, NS_ACQ, NS_FULL, NS_READ, AGGREGATOR} = POLICIES

describeOnBoth('policies and the calls that the code makes', {}, table => {
  let journeys: Journeys
  let own: string
  beforeAll(async () => {
    journeys = await recordJourneys(table)
    own = journeys.namespace
  })

  it('records every method that sends requests', () => {
    const methods = (type: {prototype: object}, prefix = '') =>
      Object.getOwnPropertyNames(type.prototype)
        .filter(name => name !== 'constructor')
        .map(name => prefix + name)
    const known = [...journeys.looks.keys(), ...journeys.changes.keys()]
    const families = {audit: Audit, buckets: Buckets, configs: Configs, entities: Entities} as const
    const more = {provisioner: Provisioner, usage: Usage} as const
    for (const [name, type] of Object.entries({...families, ...more})) {
      expect(known).toEqual(expect.arrayContaining(methods(type, `${name}.`)))
    }
    expect(known).toEqual(expect.arrayContaining(methods(NamespaceRepository)))
    expect([...journeys.limiter.keys()]).toEqual(expect.arrayContaining(methods(RateLimiter)))
    const registry = [...journeys.registryLooks.keys(), ...journeys.registryChanges.keys()]
    expect(registry).toEqual(expect.arrayContaining(methods(Namespaces, 'namespaces.')))
  })

  it('C-19 D-37 acquire-only allows every call of a limiter, and none that only an operator makes', () => {
    expect(refused(ACQ, journeys.limiter)).toEqual({})
    // It applies stored limits to buckets, as every limiter does.
    expect(possible(ACQ, journeys.changes)).toEqual(['syncAll'])
    expect(possible(ACQ, journeys.registryChanges)).toEqual([])
  })

  it('acquire-only allows writing buckets but not limits, so that no client can raise its own', () => {
    for (const action of ['dynamodb:UpdateItem', 'dynamodb:PutItem']) {
      const write = (key: string): Authorisation => ({action, target: 'table', leadingKeys: [key]})
      for (const policies of [ACQ, NS_ACQ]) {
        expect(lets(policies, write(`${own}/BUCKET#user-1#gpt-4#0`), own)).toBe(true)
        expect(lets(policies, write(`${own}/HOLDER#3kTq0vBn2aE`), own)).toBe(true)
        for (const key of [`${own}/RESOURCE#gpt-4`, `${own}/ENTITY#user-1`, `${own}/SYSTEM#`, '_/SYSTEM#']) {
          expect(lets(policies, write(key), own)).toBe(false)
        }
      }
    }
  })

  it('G10 acquire-only lets a Python client create a bucket while it checks the entity', () => {
    const check = (key: string): Authorisation => ({
      action: 'dynamodb:ConditionCheckItem',
      target: 'table',
      leadingKeys: [key],
    })
    for (const policies of [ACQ, NS_ACQ]) expect(lets(policies, check(`${own}/ENTITY#user-1`), own)).toBe(true)
    expect(lets(NS_ACQ, check('other/ENTITY#user-1'), own)).toBe(false)
  })

  it('full access allows everything', () => {
    for (const steps of [journeys.limiter, journeys.looks, journeys.changes]) expect(refused(FULL, steps)).toEqual({})
    for (const steps of [journeys.registryLooks, journeys.registryChanges]) expect(refused(FULL, steps)).toEqual({})
    const operations = ['GetItem', 'PutItem', 'UpdateItem', 'DeleteItem', 'ConditionCheckItem', 'Query', 'Scan']
    for (const operation of [...operations, 'BatchGetItem', 'BatchWriteItem']) {
      expect(lets(FULL, {action: `dynamodb:${operation}`, target: 'table', leadingKeys: ['x']})).toBe(true)
    }
  })

  it.each([
    ['read-only', READ, ['look']],
    ['full access', FULL, ['look', 'operate']],
  ])('allows with %s every action that zael doctor checks', (_, policies, purposes) => {
    const place = {partition: 'aws', region: 'eu-west-1', account: '123456789012', stack: 'prod'}
    const needed = neededActions(place).filter(({purpose}) => purposes.includes(purpose))
    expect(needed.length).toBeGreaterThan(3)
    const denied = needed.flatMap(({actions, resources}) =>
      resources.flatMap(resource => actions.filter(action => !isAllowed(policies, {action, resource, context: {}}))),
    )
    expect(denied).toEqual([])
  })

  it('asks in zael doctor for exactly the actions on items that operators need', () => {
    const place = {partition: 'aws', region: 'eu-west-1', account: '123456789012', stack: 'prod'}
    const asked = (purpose: string) =>
      neededActions(place)
        .filter(each => each.purpose === purpose && each.resources.includes(TABLE_ARN))
        .flatMap(({actions}) => actions.filter(action => !action.startsWith('dynamodb:Describe')))
    const called = (steps: Recorded) => new Set([...steps.values()].flat().map(({action}) => action))
    expect(new Set(asked('look'))).toEqual(called(journeys.looks))
    expect(new Set([...asked('look'), ...asked('operate')])).toEqual(called(journeys.changes))
  })

  it('L8 read-only allows reading everything and changing nothing', () => {
    expect(refused(READ, journeys.looks)).toEqual({})
    expect(refused(READ, journeys.registryLooks)).toEqual({})
    const writes = (steps: Recorded) => [...steps.values()].flat().filter(isWrite)
    const all = [journeys.limiter, journeys.changes, journeys.registryChanges].flatMap(writes)
    expect(all.length).toBeGreaterThan(20)
    expect(all.filter(call => lets(READ, call) || lets(NS_READ, call, own))).toEqual([])
  })

  it('C-19 namespace-acquire allows every call of a limiter, only in the namespace of the tag', () => {
    expect(refused(NS_ACQ, journeys.limiter, own)).toEqual({})
    for (const tag of ['AnotherTags', `${own}x`, own.slice(0, -1), '_', undefined]) {
      const calls = [...journeys.limiter.values()].flat().filter(call => !inRegistry(call))
      expect(calls.length).toBeGreaterThan(10)
      expect(calls.filter(call => lets(NS_ACQ, call, tag))).toEqual([])
    }
  })

  it('C-20 namespace-full allows everything in its namespace, and no change of the registry', () => {
    for (const steps of [journeys.limiter, journeys.looks, journeys.changes]) {
      expect(refused(NS_FULL, steps, own)).toEqual({})
      const elsewhere = [...steps.values()].flat().filter(call => !inRegistry(call))
      expect(elsewhere.filter(call => lets(NS_FULL, call, 'AnotherTags'))).toEqual([])
    }
    expect(possible(NS_FULL, journeys.registryChanges, own)).toEqual([])
    // A tag that no tenant has: the registry's own namespace.
    for (const tag of [own, '_', undefined]) {
      const writes = [...journeys.registryChanges.values()].flat().filter(call => isWrite(call) && inRegistry(call))
      expect(writes.length).toBeGreaterThan(5)
      expect(writes.filter(call => lets([...NS_FULL, ...NS_ACQ, ...NS_READ], call, tag))).toEqual([])
    }
  })

  it('namespace-read allows reading its namespace, and one name of the registry but not all', () => {
    expect(refused(NS_READ, journeys.looks, own)).toEqual({})
    // The record of when the roll-up began is shared by all tenants.
    const other = [...journeys.looks.values()].flat().filter(call => !inRegistry(call))
    expect(other.filter(call => lets(NS_READ, call, 'AnotherTags'))).toEqual([])
    for (const policies of [NS_ACQ, NS_READ, NS_FULL]) {
      expect(possible(policies, journeys.registryLooks, own)).toEqual([
        'namespaces.resolve',
        'namespaces.show',
        'namespaces.deletable',
      ])
    }
  })

  it('refuses a whole batch when one key belongs to another namespace', () => {
    const batch = (...leadingKeys: string[]): Authorisation => ({
      ...{action: 'dynamodb:BatchGetItem', target: 'table', leadingKeys},
    })
    expect(lets(NS_READ, batch(`${own}/ENTITY#a`, `${own}/ENTITY#b`), own)).toBe(true)
    expect(lets(NS_READ, batch(`${own}/ENTITY#a`, 'AnotherTags/ENTITY#b'), own)).toBe(false)
  })

  it('refuses a call without a key to compare', () => {
    for (const action of ['dynamodb:Scan', 'dynamodb:GetItem', 'dynamodb:Query', 'dynamodb:UpdateItem']) {
      for (const policies of [NS_ACQ, NS_READ, NS_FULL]) {
        expect(lets(policies, {action, target: 'table', leadingKeys: undefined}, own)).toBe(false)
      }
    }
  })

  it('starts index keys with the namespace and a slash, except in GSI4, where they are the namespace alone', () => {
    const queries = [journeys.looks, journeys.changes, journeys.limiter]
      .flatMap(steps => [...steps.values()].flat())
      .filter(({target}) => target.startsWith('index/'))
    const bare = queries.filter(({leadingKeys = []}) => leadingKeys.includes(own)).map(({target}) => target)
    expect(new Set(bare)).toEqual(new Set(['index/GSI4']))
    const slashed = queries.filter(({leadingKeys = []}) => leadingKeys.every(key => key.startsWith(`${own}/`)))
    expect(new Set(slashed.map(({target}) => target))).toEqual(new Set(['index/GSI1', 'index/GSI2', 'index/GSI3']))
  })

  describe('the role of the aggregator', () => {
    let calls: Authorisation[]
    beforeAll(async () => {
      calls = await recordAggregator(table)
    })

    it('allows every call of the aggregator', () => {
      expect(calls.length).toBeGreaterThan(5)
      expect(calls.filter(call => !lets(AGGREGATOR, call))).toEqual([])
    })

    it('allows nothing else on the table', () => {
      const granted = AGGREGATOR.flatMap(({Statement}) => Statement)
        .filter(({Resource}) => Resource === TABLE_ARN)
        .flatMap(({Action}) => Action)
      expect(new Set(granted)).toEqual(new Set(calls.map(({action}) => action)))
    })
  })
})
