import {expect, it} from 'vitest'
import {type PlannedResource, planCode, readRunningCode} from '../../../src/lib/infra/deploy/planned-change.js'
import {fakeAws} from '../fake-aws.js'

const RUNNING = {functionName: 'prod-aggregator', sha256Base64: 'hash', isOurs: true, runtime: 'nodejs24.x'}

function changing(action: PlannedResource['action'], ...names: string[]) {
  const properties = names.map(name => ({name, before: null, after: null}))
  const change = {action, logicalId: 'AggregatorFunction', physicalId: 'prod-aggregator', type: 'X', properties}
  return {changes: [{...change, logicalId: 'Table'}, change]}
}

it.each([
  ['nothing changes', RUNNING, undefined, 'current'],
  ['nothing changes, and the code is older', {...RUNNING, isOurs: false}, undefined, 'new'],
  ['the memory changes', RUNNING, changing('change', 'MemorySize'), 'current'],
  // Lambda changes the architecture only together with code, and CloudFormation has only the placeholder.
  ['the processor changes', RUNNING, changing('change', 'MemorySize', 'Architectures'), 'new'],
  ['the function is replaced', RUNNING, changing('replace', 'FunctionName'), 'new'],
  ['the function is new', null, changing('add'), 'new'],
  ['the function goes', {...RUNNING, isOurs: false}, changing('remove'), 'none'],
  ['there is no function', null, {changes: []}, 'none'],
] as const)('when %s', (_, running, changeSet, code) => {
  expect(planCode(running, changeSet)).toBe(code)
})

it('plans although the function was deleted outside of CloudFormation', async () => {
  const gone = () => {
    throw Object.assign(new Error('Function not found'), {name: 'ResourceNotFoundException'})
  }
  const resource = {logicalId: 'AggregatorFunction', physicalId: 'prod-aggregator', type: 'X'}
  const resources = [{...resource, status: 'CREATE_COMPLETE', statusReason: null}]
  expect(await readRunningCode(fakeAws({getFunctionConfiguration: gone}).aws, resources)).toBeNull()
})
