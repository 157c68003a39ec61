import {describe, expect, it} from 'vitest'
import {optionFlags, typedOptions} from '../../../src/lib/cli/stack/cloudformation-flags.js'
import {readOptions} from '../../../src/lib/cli/stack/option-input.js'
import {STACK_OPTIONS} from '../../../src/lib/infra/stack/options.js'

describe('the flags of a deployment', () => {
  it('match the stack options, without defaults: an omitted option keeps its deployed value', () => {
    expect(Object.keys(optionFlags)).toEqual(STACK_OPTIONS.map(({flag}) => flag))
    for (const flag of Object.values(optionFlags)) expect(flag.default).toBeUndefined()
    expect(typedOptions({})).toEqual({})
  })

  it('are parsed by the rule of each option', async () => {
    const flags = {
      'lambda-memory': '1024',
      'no-such': 1,
      alarms: false,
      'usage-windows': 'daily,hourly',
      'alarm-topic': 'none',
    }
    const parse = (given: object) =>
      readOptions(undefined, {options: typedOptions({...given}), tags: [], removedTags: []})
    expect((await parse(flags)).options).toEqual({
      lambdaMemory: 1024,
      alarms: false,
      usageWindows: ['hourly', 'daily'],
      alarmTopic: null,
    })
    await expect(parse({'lambda-memory': '7'})).rejects.toThrow(
      '--lambda-memory is "7"; it must be a whole number from 128 to 10240 (MB).',
    )
  })

  it('name the default of new stacks', () => {
    expect(optionFlags['lambda-memory']?.description).toMatch(/ Default: 512 MB\.$/)
    expect(optionFlags.tracing?.description).toMatch(/ Default: off\.$/)
  })
})
