import {describe, expect, it} from 'vitest'
import {
  compactTemplate,
  parseTemplate,
  type TemplateNode,
  withoutItemsOf,
} from '../../../src/lib/files/template-yaml.js'
import {OTHER_PARAMETERS, parameterText, STACK_OPTIONS} from '../../../src/lib/infra/stack/options.js'
import {stackWith, TEMPLATE, TEMPLATE_TEXT} from './stack-model.js'

/** CloudFormation accepts a longer template only from a bucket. */
const LONGEST_INLINE_BYTES = 51_200

/** Reserve for later additions. */
const RESERVED_BYTES = 4096

const off = 'false'
const KEY = 'arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab'
const ROLE = 'arn:aws:iam::123456789012:role/given'

describe('parameters', () => {
  it('are the options, both ways, and those for other tools, which are empty by default', () => {
    const options = STACK_OPTIONS.map(({parameter}) => parameter)
    expect(Object.keys(TEMPLATE.Parameters)).toEqual([...options, ...OTHER_PARAMETERS])
    expect(OTHER_PARAMETERS.map(name => TEMPLATE.Parameters[name].Default)).toEqual(['', '', ''])
  })

  it.each(STACK_OPTIONS.map(option => [option.parameter, option] as const))(
    '%s allows the same values as its option',
    (_, option) => {
      const {Default, AllowedValues, AllowedPattern, MinValue, MaxValue, Type} = TEMPLATE.Parameters[option.parameter]
      const {kind, choices = [], spelled = {}, min = 0, max = 0, pattern} = option
      expect(String(Default)).toBe(parameterText(option, option.default))
      const matches = (text: string) => new RegExp(AllowedPattern).test(text)
      switch (kind) {
        case 'boolean':
          return expect({Type, AllowedValues}).toEqual({Type: 'String', AllowedValues: ['true', 'false']})
        case 'choice':
          return expect(AllowedValues.map(String)).toEqual(choices.map(word => spelled[word] ?? word))
        case 'text':
          return expect(AllowedPattern).toBe(option.default === null ? `^(${pattern})?$` : `^(${pattern})$`)
        case 'list':
          for (const word of choices) expect([word, matches(word)]).toEqual([word, true])
          expect([matches(choices.join(',')), matches('weekly'), matches(''), matches('hourly,')]).toEqual([
            ...[true, false, false, false],
          ])
          return
        case 'integer':
          if (option.default !== null)
            return expect({Type, MinValue, MaxValue}).toEqual({Type: 'Number', MinValue: min, MaxValue: max})
          expect([min, max, ''].map(value => matches(String(value)))).toEqual([true, true, true])
          expect([min - 1, max + 1, 'x', '1.5'].map(value => matches(String(value)))).toEqual([
            false,
            false,
            false,
            false,
          ])
      }
    },
  )
})

describe('the template', () => {
  it('is sent short enough to be passed inline, with 4 KB in reserve', () => {
    expect(Buffer.byteLength(compactTemplate(TEMPLATE_TEXT))).toBeLessThan(LONGEST_INLINE_BYTES - RESERVED_BYTES)
  })

  it('keeps its meaning when it is compacted to be sent', () => {
    expect(parseTemplate(compactTemplate(TEMPLATE_TEXT))).toEqual(TEMPLATE)
  })

  it('omits only the statements for a customer key where an emulator does not support them', () => {
    const sent = parseTemplate(compactTemplate(withoutItemsOf('OwnKey', TEMPLATE_TEXT)))
    expect(stackWith({}, {}, sent)).toEqual(stackWith())
    expect(JSON.stringify(sent)).not.toContain('kms:Decrypt')
    expect(sent.Resources.Table).toEqual(TEMPLATE.Resources.Table)
  })

  it.each([
    [{}],
    [{EnableAggregator: off}],
    [{EnableAggregator: off, EnableIAM: off, EnableAlarms: off, EnableDashboard: off}],
    [{EnableIAM: off, AggregatorRoleArn: ROLE}],
    [{AggregatorRoleArn: ROLE, EnableTracing: 'true'}],
    [{EnableAuditArchival: off, EnableIAMRoles: 'true', PermissionBoundary: 'bound'}],
    [{EnableTracing: 'true', TableEncryptionKey: KEY, PITRRecoveryPeriodDays: '7', LambdaReservedConcurrency: '2'}],
  ])('creates no resource that depends on one that is not created: %j', parameters => {
    const {Resources, Outputs} = stackWith(parameters)
    expect(Resources.Table.Type).toBe('AWS::DynamoDB::Table')
    expect(Outputs.TableName.Value).toBe('prod')
  })

  it.each([
    ['aws-cn', 'cn-north-1'],
    ['aws-us-gov', 'us-gov-west-1'],
  ])('names no resource of another partition: %s', (partition, region) => {
    const pseudo = {'AWS::Partition': partition, 'AWS::Region': region}
    const arns = JSON.stringify(stackWith({EnableIAMRoles: 'true', PermissionBoundary: 'bound'}, pseudo)).match(
      /arn:aws[^"]*/g,
    )
    expect(arns?.length).toBeGreaterThan(10)
    expect(arns?.filter(arn => !arn.startsWith(`arn:${partition}:`))).toEqual([])
    expect(TEMPLATE_TEXT.replaceAll(/AllowedPattern: .*/g, '')).not.toContain('arn:aws')
  })

  it('accepts code, table name and role path from other tools, and is unchanged without them', () => {
    const roles = ({Resources}: ReturnType<typeof stackWith>) =>
      Object.values(Resources).filter(({Type}) => Type === 'AWS::IAM::Role')
    const own = stackWith({EnableIAMRoles: 'true'})
    // A path or another name would replace existing resources.
    expect(roles(own).filter(({Properties}) => 'Path' in Properties)).toEqual([])
    expect(own.Resources.Table.Properties.TableName).toBe('prod')
    expect(Object.keys(own.Resources.AggregatorFunction.Properties.Code)).toEqual(['ZipFile'])

    const given = {CodeBucket: 'code', CodeKey: 'a.zip', TableName: 'limits', RolePath: '/teams/'}
    const {Resources, Outputs} = stackWith({EnableIAMRoles: 'true', ...given})
    expect(Resources.AggregatorFunction.Properties.Code).toEqual({S3Bucket: 'code', S3Key: 'a.zip'})
    expect(roles({Resources, Outputs, brokenRules: []}).map(({Properties}) => Properties.Path)).toEqual(
      ['/teams/', '/teams/', '/teams/', '/teams/'], // aggregator, app, admin, read
    )
    expect(Resources.Table.Properties.TableName).toBe('limits')
    expect(Outputs.TableName.Value).toBe('limits')
    expect(Resources.AggregatorFunction.Properties.Environment.Variables.TABLE_NAME).toBe('limits')
    // The aggregator writes its metrics under the name of the table.
    const dimensions = JSON.stringify([Resources.AggregatorErrorAlarm, Resources.AggregatorArchiveAlarm])
    expect(dimensions.match(/"Name":"Stack","Value":"[^"]*"/g)).toEqual(
      Array(2).fill('"Name":"Stack","Value":"limits"'),
    )
    expect(Resources.Dashboard.Properties.DashboardBody).not.toContain('"Stack","prod"')
  })

  it('exports every output under the name of the stack', () => {
    const {Outputs} = stackWith({EnableIAMRoles: 'true'})
    const exports = Object.values(Outputs).map(({Export}: TemplateNode) => Export.Name)
    expect(exports.every(name => name.startsWith('prod-'))).toBe(true)
    expect(new Set(exports).size).toBe(exports.length)
    expect(exports).toEqual(expect.arrayContaining(['prod-TableName', 'prod-AggregatorArn', 'prod-DLQUrl']))
    expect(Object.keys(Outputs)).toEqual(Object.keys(TEMPLATE.Outputs))
  })

  it('refuses options that contradict each other', () => {
    expect(stackWith().brokenRules).toEqual([])
    expect(stackWith({EnableIAM: off, EnableIAMRoles: 'true', AggregatorRoleArn: ROLE}).brokenRules).toEqual([
      'RolesNeedIAM',
    ])
    expect(stackWith({EnableIAM: off}).brokenRules).toEqual(['AggregatorNeedsRole'])
    expect(stackWith({EnableIAM: off, EnableAggregator: off}).brokenRules).toEqual([])
    expect(stackWith({EnableIAM: off, AggregatorRoleArn: ROLE}).brokenRules).toEqual([])
    expect(stackWith({CodeBucket: 'code'}).brokenRules).toEqual(['BucketNeedsKey'])
    expect(stackWith({CodeBucket: 'code', CodeKey: 'a.zip'}).brokenRules).toEqual([])
    // As --export writes it.
    expect(stackWith({CodeKey: 'a.zip'}).brokenRules).toEqual([])
  })
})
