import {describe, expect, it} from 'vitest'
import {parseLambdaSettings} from '../../../src/lib/aggregator/environment.js'
import type {TemplateNode} from '../../../src/lib/files/template-yaml.js'
import {stackWith, TEMPLATE} from './stack-model.js'

const off = 'false'
const KEY = 'arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab'
const ROLE = 'arn:aws:iam::123456789012:role/given'

const idsOf = (type: string, stack = stackWith()) =>
  Object.entries(stack.Resources).flatMap(([id, {Type}]) => (Type === type ? [id] : []))

describe('the table', () => {
  const table = (parameters = {}) => stackWith(parameters).Resources.Table

  it('C-12 is retained when its stack is deleted, and so is the archive', () => {
    for (const id of ['Table', 'AuditArchiveBucket', 'AuditArchiveBucketPolicy']) {
      const {DeletionPolicy, UpdateReplacePolicy} = TEMPLATE.Resources[id]
      expect({DeletionPolicy, UpdateReplacePolicy}).toEqual({DeletionPolicy: 'Retain', UpdateReplacePolicy: 'Retain'})
    }
    expect(table().Properties.DeletionProtectionEnabled).toBe(false)
    expect(table({EnableDeletionProtection: 'true'}).Properties.DeletionProtectionEnabled).toBe(true)
  })

  it('can be restored as far back as configured', () => {
    const recovery = (parameters = {}) => table(parameters).Properties.PointInTimeRecoverySpecification
    expect(recovery()).toEqual({PointInTimeRecoveryEnabled: true})
    expect(recovery({PITRRecoveryPeriodDays: '7'})).toEqual({
      PointInTimeRecoveryEnabled: true,
      RecoveryPeriodInDays: '7',
    })
  })

  it('has the configured maxima and warm throughput independently, and none by default', () => {
    const throughput = (parameters = {}) => {
      const {OnDemandThroughput, WarmThroughput} = table(parameters).Properties
      return {OnDemandThroughput, WarmThroughput}
    }
    expect(throughput()).toEqual({})
    expect(throughput({OnDemandMaxWriteUnits: '500', WarmReadUnits: '30000'})).toEqual({
      OnDemandThroughput: {MaxWriteRequestUnits: '500'},
      WarmThroughput: {ReadUnitsPerSecond: '30000'},
    })
    expect(throughput({OnDemandMaxReadUnits: '1', WarmWriteUnits: '4000'})).toEqual({
      OnDemandThroughput: {MaxReadRequestUnits: '1'},
      WarmThroughput: {WriteUnitsPerSecond: '4000'},
    })
  })

  it('C-14 is encrypted with the configured key', () => {
    const encryption = (TableEncryptionKey: string) => table({TableEncryptionKey}).Properties.SSESpecification
    expect(encryption('aws-owned')).toEqual({SSEEnabled: false})
    expect(encryption('aws-managed')).toEqual({SSEEnabled: true, SSEType: 'KMS'})
    expect(encryption(KEY)).toEqual({SSEEnabled: true, SSEType: 'KMS', KMSMasterKeyId: KEY})
  })

  it('lets its users use a customer managed key, only through DynamoDB, and adds no statement for an AWS key', () => {
    const keyResources = (parameters = {}) => {
      const {AggregatorRole, ...Resources} = stackWith(parameters).Resources
      const managed = idsOf('AWS::IAM::ManagedPolicy').map(id => Resources[id].Properties.PolicyDocument)
      return [...managed, AggregatorRole.Properties.Policies[0].PolicyDocument].map(({Statement}) => {
        const statement = Statement.find(({Sid}: TemplateNode) => Sid === 'Key')
        if (statement) expect(statement.Condition).toEqual({StringLike: {'kms:ViaService': 'dynamodb.*'}})
        return statement?.Resource
      })
    }
    expect(keyResources({TableEncryptionKey: KEY})).toEqual(Array(7).fill(KEY))
    for (const TableEncryptionKey of ['aws-owned', 'aws-managed']) {
      expect(keyResources({TableEncryptionKey})).toEqual(Array(7).fill(undefined))
    }
  })
})

describe('the aggregator', () => {
  const properties = (parameters = {}) => stackWith(parameters).Resources.AggregatorFunction.Properties

  it('gets a valid environment', () => {
    const settings = (parameters = {}) => parseLambdaSettings(properties(parameters).Environment.Variables)
    expect(settings()).toMatchObject({
      tableName: 'prod',
      archiveBucket: 'ref:AuditArchiveBucket',
      windows: ['hourly', 'daily', 'monthly'],
      retentionDays: 90,
    })
    const chosen = {SnapshotWindows: 'daily', SnapshotRetentionDays: '0', EnableAuditArchival: off}
    expect(settings(chosen)).toMatchObject({archiveBucket: undefined, windows: ['daily'], retentionDays: 0})
  })

  it('C-13 C-14 runs with the configured architecture and concurrency', () => {
    expect(properties()).toMatchObject({
      ...{Runtime: 'nodejs24.x', Handler: 'index.handler', Architectures: ['arm64'], MemorySize: '512', Timeout: '60'},
      TracingConfig: {Mode: 'PassThrough'},
    })
    expect(properties()).not.toHaveProperty('ReservedConcurrentExecutions')
    const asked = {LambdaReservedConcurrency: '5', LambdaArchitecture: 'x86_64', EnableTracing: 'true'}
    expect(properties({LambdaRuntime: 'nodejs22.x'}).Runtime).toBe('nodejs22.x')
    expect(properties(asked)).toMatchObject({
      ...{ReservedConcurrentExecutions: '5', Architectures: ['x86_64'], TracingConfig: {Mode: 'Active'}},
    })
  })

  it('fails with an error until its code is uploaded', async () => {
    const exports: {handler?: () => Promise<void>} = {}
    new Function('exports', properties().Code.ZipFile)(exports)
    await expect(exports.handler?.()).rejects.toThrow('The code of the aggregator is not here yet: run "zael deploy"')
  })

  it('gets every record until it succeeds, for 6 of the 24 hours that the stream keeps it', () => {
    expect(stackWith().Resources.AggregatorEventSourceMapping.Properties).toMatchObject({
      ...{BisectBatchOnFunctionError: true, FunctionResponseTypes: ['ReportBatchItemFailures']},
      ...{MaximumRetryAttempts: -1, MaximumRecordAgeInSeconds: 21_600, StartingPosition: 'TRIM_HORIZON'},
      ...{BatchSize: '2600', MaximumBatchingWindowInSeconds: '30'},
      DestinationConfig: {OnFailure: {Destination: 'arn:AggregatorDLQ'}},
    })
    expect(stackWith().Resources.AggregatorDLQ.Properties.SqsManagedSseEnabled).toBe(true)
  })

  it('is optional, together with all resources that only it needs', () => {
    const {Resources} = stackWith({EnableAggregator: off, EnableIAM: off, EnableAlarms: off, EnableDashboard: off})
    expect(Object.keys(Resources)).toEqual(['Table'])
  })

  it('runs under its own role, or under a given one', () => {
    expect(properties().Role).toBe('arn:AggregatorRole')
    expect(properties({EnableIAM: off, AggregatorRoleArn: ROLE}).Role).toBe(ROLE)
    expect(idsOf('AWS::IAM::Role', stackWith({AggregatorRoleArn: ROLE}))).toEqual([])
    const withoutIam = stackWith({EnableIAM: off, AggregatorRoleArn: ROLE})
    expect(Object.values(withoutIam.Resources).filter(({Type}) => Type.startsWith('AWS::IAM::'))).toEqual([])
  })

  it('may write only to the archive prefix that it uses', () => {
    expect(idsOf('AWS::IAM::Policy')).toEqual(['AggregatorArchiving'])
    expect(idsOf('AWS::IAM::Policy', stackWith({EnableAuditArchival: off}))).toEqual([])
    const [statement] = stackWith().Resources.AggregatorArchiving.Properties.PolicyDocument.Statement
    expect(statement).toEqual({Effect: 'Allow', Action: 's3:PutObject', Resource: 'arn:AuditArchiveBucket/audit/*'})
  })

  it('has a role that may write traces before tracing is enabled, because Lambda checks it then', () => {
    for (const EnableTracing of ['true', off]) {
      const {Policies} = stackWith({EnableTracing}).Resources.AggregatorRole.Properties
      const statements: TemplateNode[] = Policies.flatMap(({PolicyDocument}: TemplateNode) => PolicyDocument.Statement)
      expect(statements.filter(({Sid}) => Sid === 'Traces')).toEqual([
        {Sid: 'Traces', Effect: 'Allow', Action: ['xray:PutTelemetryRecords', 'xray:PutTraceSegments'], Resource: '*'},
      ])
    }
  })

  it('has its log group before Lambda would create one that never expires', () => {
    const {AggregatorFunction, AggregatorLogGroup} = stackWith().Resources
    expect(AggregatorFunction.DependsOn).toBe('AggregatorLogGroup')
    expect(AggregatorLogGroup.Properties).toEqual({
      LogGroupName: `/aws/lambda/${AggregatorFunction.Properties.FunctionName}`,
      RetentionInDays: '30',
    })
  })
})

describe('names of roles and policies', () => {
  it('follow the format; a permissions boundary is a name or an ARN', () => {
    const names = (parameters = {}) => {
      const {Resources} = stackWith({EnableIAMRoles: 'true', ...parameters})
      return Object.values(Resources).flatMap(
        ({Properties: {RoleName, ManagedPolicyName}}) => RoleName ?? ManagedPolicyName ?? [],
      )
    }
    expect(names()).toEqual([
      ...['prod-aggr', 'prod-acq', 'prod-full', 'prod-read', 'prod-ns-acq', 'prod-ns-full', 'prod-ns-read'],
      ...['prod-app', 'prod-admin', 'prod-read'],
    ])
    expect(names({RoleNameFormat: 'team-{}-v1', PolicyNameFormat: 'p-{}'})).toEqual([
      ...['team-prod-aggr-v1', 'p-prod-acq', 'p-prod-full', 'p-prod-read', 'p-prod-ns-acq', 'p-prod-ns-full'],
      ...['p-prod-ns-read', 'team-prod-app-v1', 'team-prod-admin-v1', 'team-prod-read-v1'],
    ])
    const boundary = (PermissionBoundary: string) => {
      const {Resources} = stackWith({EnableIAMRoles: 'true', PermissionBoundary})
      return new Set(
        ['AggregatorRole', 'AppRole', 'AdminRole', 'ReadOnlyRole'].map(
          id => Resources[id].Properties.PermissionsBoundary,
        ),
      )
    }
    expect(boundary('')).toEqual(new Set([undefined]))
    expect(boundary('bound')).toEqual(new Set(['arn:aws:iam::123456789012:policy/bound']))
    expect(boundary('arn:aws:iam::aws:policy/Bound')).toEqual(new Set(['arn:aws:iam::aws:policy/Bound']))
  })
})

describe('the archive', () => {
  it('is encrypted, private, only accessible over TLS, and moves to Glacier', () => {
    const {Resources} = stackWith({AuditArchiveGlacierTransitionDays: '30'})
    const {BucketEncryption, PublicAccessBlockConfiguration, LifecycleConfiguration} =
      Resources.AuditArchiveBucket.Properties
    expect(BucketEncryption.ServerSideEncryptionConfiguration).toEqual([
      {ServerSideEncryptionByDefault: {SSEAlgorithm: 'AES256'}},
    ])
    expect(Object.values(PublicAccessBlockConfiguration)).toEqual([true, true, true, true])
    expect(LifecycleConfiguration.Rules[0].Transitions).toEqual([{StorageClass: 'GLACIER_IR', TransitionInDays: '30'}])
    const [statement] = Resources.AuditArchiveBucketPolicy.Properties.PolicyDocument.Statement
    expect(statement).toMatchObject({
      Effect: 'Deny',
      Action: 's3:*',
      Condition: {Bool: {'aws:SecureTransport': 'false'}},
    })
  })
})
