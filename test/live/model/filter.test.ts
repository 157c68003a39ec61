import {expect, it} from 'vitest'
import {filterProblem, ranking} from '../../../src/lib/live/model/rank.js'
import {bucketOf, READ_AT_MS, readingOf} from '../support.js'

const IDS = ['ada#gpt-4', 'ada-2#gpt-4o', 'gpt-4-user#search', 'Ada#GPT-4', 'resource:x#search']

it.each([
  ['gpt-4', ['Ada#GPT-4', 'ada#gpt-4', 'ada-2#gpt-4o', 'gpt-4-user#search']],
  ['resource:gpt-4', ['ada#gpt-4']],
  [' resource:gpt-4 ', ['ada#gpt-4']],
  ['resource:GPT-4', ['Ada#GPT-4']],
  ['Resource:gpt-4', ['ada#gpt-4']],
  ['resource:gpt', []],
  ['resource:', IDS.toSorted()],
  ['!resource:gpt-4', ['Ada#GPT-4', 'ada-2#gpt-4o', 'gpt-4-user#search', 'resource:x#search']],
  ['entity:ada', ['ada#gpt-4']],
  ['entity:gpt-4', []],
  ['entity:resource:x', ['resource:x#search']],
  ['!entity:ada', ['Ada#GPT-4', 'ada-2#gpt-4o', 'gpt-4-user#search', 'resource:x#search']],
])('applies the filter "%s" to find %j', (filter, ids) => {
  const readings = IDS.map(id => readingOf(bucketOf(id, {limits: {rpm: {capacity: 9}}})))
  expect(ranking(readings, READ_AT_MS, {sort: 'entity', reversed: false, filter}).ids.toSorted()).toEqual(ids)
})

it('matches a complete status exactly, and part of one as a prefix', () => {
  const rpm = {capacity: 9, left: 0}
  const readings = [
    readingOf(bucketOf('soft#r', {limits: {rpm: {...rpm, soft: true}}})),
    readingOf(bucketOf('hard#r', {limits: {rpm}})),
    readingOf(bucketOf('off#r', {limits: {rpm}}), {isDisabled: true}),
  ]
  const found = (filter: string) =>
    ranking(readings, READ_AT_MS, {sort: 'entity', reversed: false, filter: `status:${filter}`}).ids.toSorted()
  expect(found('over')).toEqual(['hard#r'])
  expect(found('overdrawn')).toEqual(['soft#r'])
  expect(found('disabled')).toEqual(['off#r'])
  expect(found('overd')).toEqual(['soft#r'])
  expect(found('ove')).toEqual(['hard#r', 'soft#r'])
})

it.each([
  ['', undefined],
  ['anything', undefined],
  ['status:', undefined],
  ['status:ov', undefined],
  ['status:disabled', undefined],
  ['!STATUS:Over', undefined],
  ['status:nonsense', 'not a status: ok, overdrawn, near, over, disabled, gone'],
  ['!status:x', 'not a status: ok, overdrawn, near, over, disabled, gone'],
  ['resource:gpt-4', undefined],
  ['entity:a#b', expect.stringContaining('a#b')],
  ['resource:', expect.any(String)],
])('reports for the filter "%s" the problem %s', (filter, problem) => {
  expect(filterProblem(filter)).toEqual(problem)
})
