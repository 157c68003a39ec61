interface PropertyActions {
  readonly type: string
  /** Path of the property; `null`: no stack needs the actions. */
  readonly property: string | null
  readonly actions: readonly string[]
}

/** Schemas list every call of a handler. These calls are needed only with the given property; unlisted ones always. */
export const PROPERTY_ACTIONS: readonly PropertyActions[] = [
  ...only('AWS::DynamoDB::Table', {
    ContributorInsightsSpecification: 'dynamodb:UpdateContributorInsights',
    ImportSourceSpecification: `dynamodb:DescribeImport dynamodb:ImportTable logs:CreateLogGroup logs:CreateLogStream
      logs:DescribeLogGroups logs:DescribeLogStreams logs:PutLogEvents logs:PutRetentionPolicy s3:GetObject s3:ListBucket`,
    KinesisStreamSpecification: `dynamodb:DisableKinesisStreamingDestination dynamodb:EnableKinesisStreamingDestination
      dynamodb:UpdateKinesisStreamingDestination kinesis:DescribeStream kinesis:PutRecords`,
    ResourcePolicy: 'dynamodb:DeleteResourcePolicy dynamodb:PutResourcePolicy',
    'SSESpecification.KMSMasterKeyId':
      'kms:CreateGrant kms:Decrypt kms:DescribeKey kms:Encrypt kms:ListAliases kms:RevokeGrant',
  }),
  // Only AWS::DynamoDB::GlobalTable has replicas: DynamoDB copies the items with the caller's permissions.
  never(
    'AWS::DynamoDB::Table',
    `dynamodb:AssociateTableReplica dynamodb:BatchWriteItem dynamodb:CreateTableReplica dynamodb:DeleteItem
    dynamodb:GetItem dynamodb:PutItem dynamodb:Query dynamodb:Scan dynamodb:UpdateItem iam:CreateServiceLinkedRole`,
  ),
  ...only('AWS::Lambda::Function', {
    CapacityProviderConfig: 'lambda:PassCapacityProvider',
    CodeSigningConfigArn:
      'lambda:DeleteFunctionCodeSigningConfig lambda:GetCodeSigningConfig lambda:PutFunctionCodeSigningConfig',
    FileSystemConfigs: 'elasticfilesystem:DescribeMountTargets s3files:ListMountTargets',
    FunctionScalingConfig: 'lambda:PutFunctionScalingConfig',
    KmsKeyArn: 'kms:CreateGrant kms:Decrypt kms:DescribeKey kms:Encrypt kms:GenerateDataKey',
    Layers: 'lambda:GetLayerVersion',
    PublishToLatestPublished: 'lambda:PublishVersion',
    RecursiveLoop: 'lambda:PutFunctionRecursionConfig',
    ReservedConcurrentExecutions: 'lambda:DeleteFunctionConcurrency lambda:PutFunctionConcurrency',
    Role: 'iam:PassRole',
    RuntimeManagementConfig: 'lambda:PutRuntimeManagementConfig',
    VpcConfig: 'ec2:DescribeNetworkInterfaces ec2:DescribeSecurityGroups ec2:DescribeSubnets ec2:DescribeVpcs',
  }),
  // For CodeBucket, which only other tools use: zael uploads the code itself.
  never('AWS::Lambda::Function', 's3:GetObject s3:GetObjectVersion'),
  ...only('AWS::Lambda::EventSourceMapping', {KmsKeyArn: 'kms:Decrypt kms:DescribeKey kms:GenerateDataKey'}),
  ...only('AWS::Logs::LogGroup', {
    BearerTokenAuthenticationEnabled: 'logs:PutBearerTokenAuthentication',
    DataProtectionPolicy: 'firehose:TagDeliveryStream logs:CreateLogDelivery logs:PutDataProtectionPolicy',
    DeletionProtectionEnabled: 'logs:PutLogGroupDeletionProtection',
    FieldIndexPolicies: 'logs:DeleteIndexPolicy logs:PutIndexPolicy',
    KmsKeyId: 'logs:AssociateKmsKey logs:DisassociateKmsKey',
    ResourcePolicyDocument: 'logs:DeleteResourcePolicy logs:PutResourcePolicy',
  }),
  ...only('AWS::IAM::ManagedPolicy', {
    Groups: 'iam:AttachGroupPolicy iam:DetachGroupPolicy',
    Roles: 'iam:AttachRolePolicy iam:DetachRolePolicy',
    Users: 'iam:AttachUserPolicy iam:DetachUserPolicy',
  }),
  ...only('AWS::IAM::Policy', {
    Groups: 'iam:DeleteGroupPolicy iam:GetGroupPolicy iam:PutGroupPolicy',
    Users: 'iam:DeleteUserPolicy iam:GetUserPolicy iam:PutUserPolicy',
  }),
  ...only('AWS::S3::Bucket', {
    AbacStatus: 's3:PutBucketAbac',
    AccelerateConfiguration: 's3:PutAccelerateConfiguration',
    AccessControl: 's3:GetBucketAcl s3:PutBucketAcl s3:PutObjectAcl',
    AnalyticsConfigurations: 's3:PutAnalyticsConfiguration',
    CorsConfiguration: 's3:PutBucketCORS',
    IntelligentTieringConfigurations: 's3:PutIntelligentTieringConfiguration',
    InventoryConfigurations: 's3:PutInventoryConfiguration',
    LoggingConfiguration: 's3:PutBucketLogging',
    MetadataConfiguration: `s3:UpdateBucketMetadataAnnotationTableConfiguration
      s3:UpdateBucketMetadataInventoryTableConfiguration s3:UpdateBucketMetadataJournalTableConfiguration`,
    MetadataTableConfiguration: `s3:CreateBucketMetadataTableConfiguration s3:DeleteBucketMetadataTableConfiguration
      s3tables:CreateNamespace s3tables:CreateTable s3tables:CreateTableBucket s3tables:GetTable
      s3tables:GetTableMetadataLocation s3tables:PutTableBucketPolicy s3tables:PutTableEncryption
      s3tables:PutTablePolicy s3tables:UpdateTableMetadataLocation`,
    MetricsConfigurations: 's3:PutMetricsConfiguration',
    NotificationConfiguration: 's3:PutBucketNotification',
    ObjectLockEnabled: 's3:PutBucketObjectLockConfiguration',
    ReplicationConfiguration: 'iam:PassRole s3:PutReplicationConfiguration',
    VersioningConfiguration: 's3:PutBucketVersioning',
    WebsiteConfiguration: 's3:DeleteBucketWebsite s3:PutBucketWebsite',
  }),
  // CloudFormation deletes only empty buckets.
  never('AWS::S3::Bucket', 's3:DeleteObject'),
]

export function isSuperfluous(type: string, action: string, properties: ReadonlySet<string>): boolean {
  return PROPERTY_ACTIONS.some(
    each =>
      each.type === type && each.actions.includes(action) && (each.property === null || !properties.has(each.property)),
  )
}

function only(type: string, actions: Readonly<Record<string, string>>): PropertyActions[] {
  return Object.entries(actions).map(([property, names]) => ({type, property, actions: names.split(/\s+/)}))
}

function never(type: string, names: string): PropertyActions {
  return {type, property: null, actions: names.split(/\s+/)}
}
