import {describe, expect, it} from 'vitest'
import {readString} from '../../src/lib/schema/attribute-value.js'
import {keyNames} from '../../src/lib/schema/attributes.js'
import {type KeyRange, ranges, startKeyOf, wireStartKey} from '../../src/lib/schema/ranges.js'
import {NS, samples} from './samples.js'

describe('key ranges', () => {
  it.each<[string, KeyRange, KeyRange]>([
    ['namespaces by name', ranges.namespacesByName(), {partition: '_/SYSTEM#', prefix: '#NAMESPACE#'}],
    ['namespaces by id', ranges.namespacesById(), {partition: '_/SYSTEM#', prefix: '#NSID#'}],
    ['a namespace', ranges.namespace('n'), {index: 'GSI4', partition: 'n'}],
    ['entities', ranges.entities('n'), {index: 'GSI4', partition: 'n', prefix: 'n/ENTITY#'}],
    ['resource configurations', ranges.resourceConfigs('n'), {index: 'GSI4', partition: 'n', prefix: 'n/RESOURCE#'}],
    ['events', ranges.audit('n'), {index: 'GSI4', partition: 'n', prefix: 'n/AUDIT#'}],
    ['buckets', ranges.buckets('n'), {index: 'GSI4', partition: 'n', prefix: 'BUCKET#'}],
    ['an entity', ranges.entity('n', 'e'), {partition: 'n/ENTITY#e'}],
    ['configurations of an entity', ranges.configsOfEntity('n', 'e'), {partition: 'n/ENTITY#e', prefix: '#CONFIG#'}],
    ['usage of an entity', ranges.usageOfEntity('n', 'e'), {partition: 'n/ENTITY#e', prefix: '#USAGE#'}],
    ['one usage of an entity', ranges.usageOfEntity('n', 'e', 'r'), {partition: 'n/ENTITY#e', prefix: '#USAGE#r#'}],
    ['events of an entity', ranges.auditOfEntity('n', 'e'), {partition: 'n/AUDIT#e'}],
    ['children', ranges.children('n', 'e'), {index: 'GSI1', partition: 'n/PARENT#e', prefix: 'CHILD#'}],
    [
      'buckets of an entity',
      ranges.bucketsOfEntity('n', 'e'),
      {index: 'GSI3', partition: 'n/ENTITY#e', prefix: 'BUCKET#'},
    ],
    [
      'one bucket of an entity',
      ranges.bucketsOfEntity('n', 'e', 'r'),
      {index: 'GSI3', partition: 'n/ENTITY#e', prefix: 'BUCKET#r#'},
    ],
    [
      'entity configurations of a resource',
      ranges.entityConfigsOfResource('n', 'r'),
      {index: 'GSI3', partition: 'n/ENTITY_CONFIG#r'},
    ],
    [
      'buckets of a resource',
      ranges.bucketsOfResource('n', 'r'),
      {index: 'GSI2', partition: 'n/RESOURCE#r', prefix: 'BUCKET#'},
    ],
    [
      'usage of a resource',
      ranges.usageOfResource('n', 'r'),
      {index: 'GSI2', partition: 'n/RESOURCE#r', prefix: 'USAGE#'},
    ],
  ])('of %s', (_, range, expected) => expect(range).toEqual(expected))

  it('of one resource leave out resources whose names begin alike', () => {
    const items = samples.map(({item}) => item)
    const holds = ({index, partition, prefix = ''}: KeyRange) =>
      items.filter(item => {
        const [pk, sk] = keyNames(index).map(name => readString(item, name))
        return pk === partition && sk?.startsWith(prefix)
      })
    const whole = ranges.bucketsOfEntity(NS, 'user-1', 'gpt-4')
    expect(holds(whole).length).toBeGreaterThan(0)
    expect(holds(ranges.bucketsOfEntity(NS, 'user-1', 'gpt'))).toEqual([])
    expect(holds({...whole, prefix: whole.prefix.replace('gpt-4#', 'gpt')})).toEqual(holds(whole))
  })

  it.each([undefined, 'GSI2'] as const)('start after an item by all its keys, in index %s', index => {
    const item = {PK: {S: 'a'}, SK: {S: 'b'}, GSI2PK: {S: 'c'}, GSI2SK: {S: 'd'}, other: {S: 'e'}}
    const {other: _, ...keys} = item
    expect(startKeyOf(item, index)).toEqual(index ? ['a', 'b', 'c', 'd'] : ['a', 'b'])
    expect(wireStartKey(startKeyOf(item, index), index)).toEqual(index ? keys : {PK: {S: 'a'}, SK: {S: 'b'}})
  })
})
