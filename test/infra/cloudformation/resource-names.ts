/** The property that names a resource of this type, and whether another value of these properties replaces the resource. */
interface ResourceNaming {
  readonly property: string
  readonly replacedBy: readonly string[]
}

/** From AWS's template reference: "Update requires: Replacement", for the properties that the template has. */
const NAMING: Readonly<Record<string, ResourceNaming>> = {
  'AWS::DynamoDB::Table': named('TableName', 'KeySchema'),
  'AWS::S3::Bucket': named('BucketName'),
  'AWS::SQS::Queue': named('QueueName'),
  'AWS::Logs::LogGroup': named('LogGroupName'),
  'AWS::IAM::Role': named('RoleName', 'Path'),
  'AWS::IAM::ManagedPolicy': named('ManagedPolicyName'),
  'AWS::Lambda::Function': named('FunctionName'),
  'AWS::Lambda::EventSourceMapping': named('', 'EventSourceArn', 'StartingPosition'),
  'AWS::CloudWatch::Alarm': named('AlarmName'),
  'AWS::CloudWatch::Dashboard': named('DashboardName'),
}

export const TABLE = 'AWS::DynamoDB::Table'

/** The property with the name that a template gives to a resource; `undefined` for types whose names AWS generates. */
export function nameProperty(type: string): string | undefined {
  return NAMING[type]?.property || undefined
}

export function isReplacedBy(type: string, property: string): boolean {
  return NAMING[type]?.replacedBy.includes(property) ?? false
}

/** "Replacement if you edit an existing AttributeDefinition": change sets report it as possible for new ones too. */
export function mayBeReplacedBy(type: string, property: string): boolean {
  return type === TABLE && property === 'AttributeDefinitions'
}

function named(property: string, ...others: readonly string[]): ResourceNaming {
  return {property, replacedBy: [property, ...others]}
}
