import fc from 'fast-check'
import {describe, expect, test} from 'vitest'
import {ExpressionBuilder} from '../../src/lib/dynamo/expression.js'
import {type AttributeValue, bool, n, s} from '../../src/lib/schema/attribute-value.js'

test('builds an update with every clause and a condition', () => {
  const e = new ExpressionBuilder()
  e.set('rf', n(1))
    .setIfMissing('cp', n(100))
    .add('b_tpm_tk', n(-5))
    .remove('ttl')
    .delete('tags', {SS: ['x']})
  e.condition(`${e.name('rf')} = ${e.value(n(3))}`).condition(
    `attribute_exists(${e.name('PK')}) OR ${e.name('rf')} < ${e.value(n(1))}`,
  )
  expect(e.update()).toEqual({
    UpdateExpression: 'SET #0=:0,#1=if_not_exists(#1,:1) ADD #2 :2 REMOVE #3 DELETE #4 :3',
    ConditionExpression: '#0 = :4 AND (attribute_exists(#5) OR #0 < :0)',
    ExpressionAttributeNames: {'#0': 'rf', '#1': 'cp', '#2': 'b_tpm_tk', '#3': 'ttl', '#4': 'tags', '#5': 'PK'},
    ExpressionAttributeValues: {':0': n(1), ':1': n(100), ':2': n(-5), ':3': {SS: ['x']}, ':4': n(3)},
  })
})

test('builds a read with key condition, filter and projection', () => {
  const e = new ExpressionBuilder()
  e.keyCondition(`${e.name('PK')} = ${e.value(s('a'))}`).keyCondition(
    `begins_with(${e.name('SK')}, ${e.value(s('b'))})`,
  )
  e.filter(`attribute_exists(${e.name('name')})`).project('SK', 'name', 'SK')
  expect(e.read()).toEqual({
    KeyConditionExpression: '#0 = :0 AND begins_with(#1, :1)',
    FilterExpression: 'attribute_exists(#2)',
    ProjectionExpression: '#1, #2',
    ExpressionAttributeNames: {'#0': 'PK', '#1': 'SK', '#2': 'name'},
    ExpressionAttributeValues: {':0': s('a'), ':1': s('b')},
  })
})

test('sends no empty maps of names and values, because DynamoDB rejects them', () => {
  const nothing = JSON.stringify({})
  expect(JSON.stringify(new ExpressionBuilder().update())).toBe(nothing)
  expect(JSON.stringify(new ExpressionBuilder().read())).toBe(nothing)
  expect(JSON.stringify(new ExpressionBuilder().remove('ttl').update())).not.toContain('Values')
})

test('distinguishes values of different types that look alike', () => {
  const e = new ExpressionBuilder()
  const all: AttributeValue[] = [n(1), s('1'), s('{"BOOL":true}'), bool(true), {SS: ['1']}, {NS: ['1']}, {L: [n(1)]}]
  expect(new Set(all.map(value => e.value(value))).size).toBe(all.length)
})

describe('D-17 names in expressions', () => {
  const attribute = fc.oneof(
    fc.string({minLength: 1}),
    fc.constantFrom('b_my-limit_tk', 'gpt-3.5', 'wcu', 'name', 'size', '#0', ':0', '__proto__', 'constructor'),
  )
  const value = fc.oneof(
    fc.bigInt().map(n),
    fc.string().map(s),
    fc.boolean().map(bool),
    fc.array(fc.string(), {minLength: 1}).map(SS => ({SS})),
  )

  test('become unique, complete placeholders', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(attribute, value, fc.constantFrom('set', 'add', 'setIfMissing'))), steps => {
        const e = new ExpressionBuilder()
        for (const [name, written, verb] of steps) e[verb as 'set' | 'add' | 'setIfMissing'](name, written)
        const {UpdateExpression = '', ExpressionAttributeNames = {}, ExpressionAttributeValues = {}} = e.update()

        const names = [...new Set(steps.map(([name]) => name))]
        expect(Object.values(ExpressionAttributeNames)).toEqual(names)
        const values = new Set(steps.map(([, written]) => JSON.stringify(written)))
        expect(new Set(Object.values(ExpressionAttributeValues).map(v => JSON.stringify(v)))).toEqual(values)
        expect(Object.keys(ExpressionAttributeValues)).toHaveLength(values.size)

        const used = new Set(UpdateExpression.match(/[#:]\w+/g))
        const defined = [...Object.keys(ExpressionAttributeNames), ...Object.keys(ExpressionAttributeValues)]
        expect(used).toEqual(new Set(defined))
        expect(UpdateExpression.replaceAll(/[#:]\d+/g, '')).toMatch(/^(SET|ADD|if_not_exists|[ =,()])*$/)
      }),
    )
  })
})
