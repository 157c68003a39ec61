import {expect, it} from 'vitest'
import {withoutStack} from '../../src/lib/core/errors.js'
import {classifyError} from '../../src/lib/dynamo/classify.js'
import {ConditionFailed} from '../../src/lib/dynamo/errors.js'

const framesOf = (error: Error) => (error.stack ?? '').split('\n').filter(line => /^\s+at /.test(line))

it('creates an error without a stack, and keeps other stacks', () => {
  expect(framesOf(withoutStack(() => new Error('often')))).toEqual([])
  expect(framesOf(new Error('seldom')).length).toBeGreaterThan(0)
})

it('keeps other stacks if no error could be created', () => {
  const fail = () => {
    throw new RangeError('no error')
  }
  expect(() => withoutStack(fail)).toThrow('no error')
  expect(framesOf(new Error('seldom')).length).toBeGreaterThan(0)
})

it('captures no stack for a refused write, which is an outcome', () => {
  const error = classifyError({name: 'ConditionalCheckFailedException'}, 'UpdateItem')
  expect(error).toBeInstanceOf(ConditionFailed)
  expect(framesOf(error)).toEqual([])
})
