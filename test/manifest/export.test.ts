import {expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {isRead} from '../../src/lib/dynamo/transport.js'
import {parseManifest} from '../../src/lib/manifest/parse.js'
import {planManifest} from '../../src/lib/manifest/plan.js'
import type {Item} from '../../src/lib/schema/attribute-value.js'
import {configKey} from '../../src/lib/schema/config-record.js'
import {keys} from '../../src/lib/schema/keys.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {put, stored} from '../repository/namespace-table.js'
import {exportForm, exportManifest, newNamespace} from './support.js'

describeOnBoth('an export', {}, table => {
  it('is a manifest of the namespace, and applying it there changes nothing', async () => {
    const {tenant, repository} = newNamespace(table)
    await repository.setLimits({level: 'system'}, parseLimits(['tpm=1M/day', 'rpm=100/min']), {onUnavailable: 'allow'})
    await repository.setLimits({level: 'resource', resource: 'gpt-4'}, parseLimits(['rpm=10/sec:50']), {replace: true})
    await repository.setLimits({level: 'resource', resource: 'a/b'}, parseLimits(['rpm=500/15min']), {replace: true})
    await repository.entities.create({id: 'org'})
    await repository.entities.create({
      id: 'user@x',
      name: 'yes',
      parent: 'org',
      cascade: true,
      metadata: {z: 1, a: ['x', null], text: '12'},
    })
    await repository.setLimits({level: 'entity', entity: 'user@x', resource: 'gpt-4'}, parseLimits(['rpm=7/min']), {
      replace: true,
    })
    await repository.setLimits({level: 'entity', entity: '42', resource: '_default_'}, parseLimits(['rpm=1/90sec']), {
      replace: true,
    })
    tenant.transport.calls.length = 0
    const text = await exportManifest(repository, 'prod')
    expect(tenant.transport.calls.every(isRead)).toBe(true)
    expect(text).toBe(`namespace: prod
system:
  on_unavailable: allow
  limits:
    rpm: 100/min
    tpm: 1M/day
resources:
  a/b:
    limits:
      rpm: 500/15min
  gpt-4:
    limits:
      rpm: 10/sec:50
entities:
  "42":
    limits:
      rpm: 1/90sec
  org:
    name: org
  user@x:
    name: "yes"
    parent: org
    cascade: true
    metadata:
      a:
        - x
        - null
      text: "12"
      z: 1
    resources:
      gpt-4:
        limits:
          rpm: 7/min
`)
    const json = JSON.stringify(await exportForm(repository, 'prod'))
    expect(parseManifest(json, {file: 'exported'})).toEqual(parseManifest(text, {file: 'exported'}))
    const plan = await planManifest(repository, parseManifest(text, {file: 'exported'}))
    expect(plan.changes).toEqual([])
    expect(plan.counts).toMatchObject({adopt: 5, unchanged: 7})
  })

  it('is empty for an empty namespace', async () => {
    expect(await exportManifest(newNamespace(table).repository, 'prod')).toBe('namespace: prod\n')
  })

  it('leaves out records without limits, and includes limits that only the Python record lists', async () => {
    const {tenant, repository} = newNamespace(table)
    const {namespace} = tenant
    const {PK, SK} = keys.provisioner(namespace)
    const withoutIndexes = (key: {PK: string; SK: string}, more: Item): Item => ({
      PK: {S: key.PK},
      SK: {S: key.SK},
      GSI4PK: {S: namespace},
      ...more,
    })
    const rpm: Item = {l_rpm_cp: {N: '5'}, l_rpm_ra: {N: '5'}, l_rpm_rp: {N: '60'}}
    const ofEntity = configKey(namespace, {level: 'entity', entity: 'py', resource: 'gpt-4'})
    const ofResource = configKey(namespace, {level: 'resource', resource: 'gpt-4'})
    const withoutLimits = configKey(namespace, {level: 'resource', resource: 'empty'})
    await put(
      tenant,
      withoutIndexes(ofEntity, {...rpm, other: {BOOL: true}}),
      withoutIndexes(ofResource, rpm),
      withoutIndexes(withoutLimits, {}),
      {
        PK: {S: PK},
        SK: {S: SK},
        managed_resources: {L: [{S: 'gpt-4'}, {S: 'empty'}]},
        managed_entities: {M: {py: {L: [{S: 'gpt-4'}]}}},
      },
    )
    const text = await exportManifest(repository, 'prod')
    expect(parseManifest(text, {file: 'f'})).toMatchObject({
      resources: new Map([['gpt-4', {limits: parseLimits(['rpm=5/min'])}]]),
      entities: new Map([['py', {scopes: new Map([['gpt-4', {limits: parseLimits(['rpm=5/min'])}]])}]]),
    })
    expect(await stored(tenant, ofEntity)).toMatchObject({other: {BOOL: true}})
  })
})
