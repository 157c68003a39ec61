import {describe, expect, it} from 'vitest'
import {checkStreamStart} from '../../../src/lib/infra/deploy/plan.js'
import {requestedResourceIndex, resourceIndexOption} from '../../../src/lib/infra/stack/options.js'

describe('the resource index', () => {
  it.each([
    [undefined, undefined],
    ['all', 'ALL'],
    ['keys-only', 'KEYS_ONLY'],
  ])('%s is requested as %s', (resourceIndex, projection) => {
    const options = resourceIndex === undefined ? {} : {resourceIndex}
    expect(requestedResourceIndex(options)).toBe(projection)
    if (projection !== undefined) expect(resourceIndexOption(projection)).toBe(resourceIndex)
  })

  it('keeps another projection', () => {
    expect(resourceIndexOption('INCLUDE')).toBe('INCLUDE')
  })
})

describe('the starting position of the stream', () => {
  const deployed = {name: 'prod', parameters: {StreamStartingPosition: 'TRIM_HORIZON'}}
  const mapping = {
    logicalId: 'AggregatorEventSourceMapping',
    physicalId: 'id',
    type: 'X',
    status: 'X',
    statusReason: null,
  }
  const check = (given: Record<string, string>, resources = [mapping], stack = deployed) => {
    return () => checkStreamStart(stack, given, resources)
  }

  it('cannot be changed for an existing mapping', () => {
    expect(check({StreamStartingPosition: 'LATEST'})).toThrow(
      expect.objectContaining({code: 'deploy.stream-start', details: expect.objectContaining({asked: 'latest'})}),
    )
    expect(check({StreamStartingPosition: 'LATEST'}, [mapping], {name: 'prod', parameters: {} as never})).toThrow()
  })

  it.each([
    ['it is not given', {}, [mapping]],
    ['it is the deployed one', {StreamStartingPosition: 'TRIM_HORIZON'}, [mapping]],
    ['the aggregator is removed', {StreamStartingPosition: 'LATEST', EnableAggregator: 'false'}, [mapping]],
    ['there is no mapping', {StreamStartingPosition: 'LATEST'}, []],
  ])('is accepted when %s', (_, given, resources) => {
    expect(check(given, resources)).not.toThrow()
  })
})
