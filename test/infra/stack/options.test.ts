import {describe, expect, it} from 'vitest'
import {InvalidInput} from '../../../src/lib/core/errors.js'
import {checkCombination} from '../../../src/lib/infra/stack/option-rules.js'
import {parseTypedOptions} from '../../../src/lib/infra/stack/option-schema.js'
import {
  expectedOf,
  type OptionValue,
  parametersOf,
  parameterText,
  STACK_OPTIONS,
  type StackOption,
} from '../../../src/lib/infra/stack/options.js'

const option = (name: string) => STACK_OPTIONS.find(each => each.name === name) as StackOption

const parse = ({name}: StackOption, text: string) => parseTypedOptions({[name]: text})[name]

describe('the options', () => {
  it.each(['name', 'flag', 'parameter'] as const)('have one %s each', key => {
    expect(new Set(STACK_OPTIONS.map(each => each[key])).size).toBe(STACK_OPTIONS.length)
  })

  it.each(STACK_OPTIONS.map(each => [each.name, each] as const))('%s reads its own default', (_, each) => {
    const shown = each.default === null ? 'none' : [each.default].flat().join(',')
    expect(parse(each, shown)).toEqual(each.default)
    expect(each.flag).toMatch(/^[a-z]+(-[a-z]+)*$/)
    expect(each.description).toMatch(/\.$/)
  })
})

describe('parseTypedOptions', () => {
  it.each<[string, string, OptionValue]>([
    ['aggregator', 'true', true],
    ['aggregator', 'false', false],
    ['lambdaMemory', '1024', 1024],
    ['pitrDays', '35', 35],
    ['pitrDays', 'none', null],
    ['pitrDays', '', null],
    ['resourceIndex', 'all', 'all'],
    ['logRetentionDays', '365', '365'],
    ['usageWindows', 'monthly, hourly,hourly', ['hourly', 'monthly']],
    ['encryptionKey', 'aws-managed', 'aws-managed'],
    [
      'encryptionKey',
      'arn:aws-cn:kms:cn-north-1:123456789012:key/mrk-12ab',
      'arn:aws-cn:kms:cn-north-1:123456789012:key/mrk-12ab',
    ],
    ['permissionBoundary', 'team-boundary', 'team-boundary'],
    [
      'permissionBoundary',
      'arn:aws-us-gov:iam::123456789012:policy/a/b',
      'arn:aws-us-gov:iam::123456789012:policy/a/b',
    ],
    ['roleNameFormat', 'team-{}-v1', 'team-{}-v1'],
    ['rolePath', '/', '/'],
    ['rolePath', '/teams/a/', '/teams/a/'],
  ])('%s %j', (name, text, value) => {
    expect(parse(option(name), text)).toEqual(value)
  })

  it.each([
    ['aggregator', 'yes', '--aggregator is "yes"; it must be true or false.'],
    ['lambdaMemory', '64', '--lambda-memory is "64"; it must be a whole number from 128 to 10240 (MB).'],
    ['lambdaMemory', '1e3', '--lambda-memory is "1e3"; it must be a whole number from 128 to 10240 (MB).'],
    ['pitrDays', '36', '--pitr-days is "36"; it must be a whole number from 1 to 35 (days), or "none".'],
    ['lambdaArchitecture', 'mips', '--lambda-architecture is "mips"; it must be arm64 or x86_64.'],
    ['usageWindows', '', '--usage-windows is ""; it must be some of hourly, daily, monthly, separated by commas.'],
    ['usageWindows', 'hourly,weekly', '--usage-windows is "hourly,weekly"; it must be some of hourly, daily, monthly,'],
    ['alarmTopic', 'ops', '--alarm-topic is "ops"; it must be the ARN of an SNS topic, or "none".'],
    ['encryptionKey', 'none', '--encryption-key is "none"; it must be aws-owned, aws-managed or the ARN of a KMS key.'],
    ['roleNameFormat', 'team', '--role-name-format is "team"; it must be letters, digits and _+=,.@- with one {} for'],
    ['rolePath', 'teams/', '--role-path is "teams/"; it must be an IAM path that begins and ends with a slash.'],
    ['rolePath', '/teams', '--role-path is "/teams"'],
    ['rolePath', '//', '--role-path is "//"'],
    ['roleNameFormat', '{}-{}', '--role-name-format is "{}-{}"; it must be letters'],
    ['roleNameFormat', `${'x'.repeat(54)}{}`, 'at most 55 characters'],
  ])('refuses %s %j', (name, text, message) => {
    expect(() => parse(option(name), text)).toThrow(InvalidInput)
    expect(() => parse(option(name), text)).toThrow(message)
  })

  it('refuses all wrong options at once', () => {
    const texts = {lambdaMemory: '9'.repeat(400), aggregator: 'true', pitrDays: '0', tracing: 'on'}
    expect(() => parseTypedOptions(texts)).toThrow(
      expect.objectContaining({
        code: 'deploy.option',
        message: [
          '--pitr-days is "0"; it must be a whole number from 1 to 35 (days), or "none".',
          `--lambda-memory is "${'9'.repeat(400)}"; it must be a whole number from 128 to 10240 (MB).`,
          '--tracing is "on"; it must be true or false.',
        ].join('\n'),
      }),
    )
  })

  it('lists the values of a long choice', () => {
    expect(expectedOf(option('logRetentionDays'))).toMatch(/^one of 1, 3, 5, .* 3653$/)
  })
})

describe('parametersOf', () => {
  it('returns the given options in the spelling of the template', () => {
    expect(parametersOf({})).toEqual({})
    const given = {resourceIndex: 'all', streamStart: 'latest', pitrDays: null, alarms: false, usageWindows: ['daily']}
    expect(parametersOf(given)).toEqual({
      ResourceIndexProjection: 'ALL',
      StreamStartingPosition: 'LATEST',
      PITRRecoveryPeriodDays: '',
      EnableAlarms: 'false',
      SnapshotWindows: 'daily',
    })
  })

  it('refuses an unknown option', () => {
    expect(() => parametersOf({colour: 'red'})).toThrow('Unknown option "colour".')
  })
})

describe('checkCombination', () => {
  const role = {AggregatorRoleArn: 'arn:aws:iam::123456789012:role/given'}

  it('accepts valid combinations', () => {
    checkCombination('prod', {})
    checkCombination('prod', {EnableIAM: 'false', ...role})
    checkCombination('prod', {EnableIAM: 'false', EnableAggregator: 'false'})
    checkCombination('s'.repeat(53), {})
    checkCombination('prod', {LambdaMemorySize: '128', StreamBatchSize: '500'})
    checkCombination('prod', {LambdaMemorySize: '256'})
    checkCombination('prod', {LambdaMemorySize: '128', EnableAggregator: 'false'})
    checkCombination('s'.repeat(55), {EnableAggregator: 'false'})
  })

  it.each([
    ['prod', {EnableIAM: 'false', EnableIAMRoles: 'true', ...role}, '--iam-roles and --no-iam exclude each other'],
    ['prod', {EnableIAM: 'false'}, 'Without IAM, the aggregator has no role.'],
    ['prod', {LambdaMemorySize: '128'}, 'A batch of 2600 records does not fit into 128 MB'],
    ['prod', {LambdaMemorySize: '255', StreamBatchSize: '501'}, 'A batch of 501 records does not fit into 255 MB'],
    ['s'.repeat(54), {}, '65 characters, but at most 64 are allowed'],
    ['s'.repeat(40), {RoleNameFormat: `${'f'.repeat(20)}{}`}, 'The name of a role would be "ffffffffffffffffffff'],
    ['s'.repeat(40), {PolicyNameFormat: `${'f'.repeat(90)}{}`}, '138 characters, but at most 128 are allowed'],
  ])('refuses for %s: %j', (stack, parameters, message) => {
    expect(() => checkCombination(stack, parameters)).toThrow(message)
  })

  it('refuses all wrong combinations at once, with a fix for each', () => {
    expect(() => checkCombination('s'.repeat(60), {EnableIAM: 'false', EnableIAMRoles: 'true'})).toThrow(
      expect.objectContaining({
        code: 'deploy.options',
        message: expect.stringMatching(/^--iam-roles and .*\nWithout IAM, .*\nThe name of a function would be "s+-agg/),
        hint: expect.stringMatching(
          /^Use only one of them\. Name a role with .* Choose a shorter name for the stack\.$/,
        ),
      }),
    )
  })

  it('checks the longest role name that the stack will have', () => {
    const format = {RoleNameFormat: `${'f'.repeat(20)}{}`}
    // 20 + 39 + "-aggr" = 64, and "-admin" is one more.
    checkCombination('s'.repeat(39), format)
    expect(() => checkCombination('s'.repeat(39), {...format, EnableIAMRoles: 'true'})).toThrow('65 characters')
  })
})

it('spells every value of an option in one way in the template', () => {
  const twice = option('resourceIndex')
  expect(['keys-only', 'all'].map(word => parameterText(twice, word))).toEqual(['KEYS_ONLY', 'ALL'])
  expect(parameterText(option('lambdaMemory'), 1024)).toBe('1024')
})
