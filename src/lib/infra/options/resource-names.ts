/** Names of a stack's resources that options or CloudFormation decide. */
export interface ResourceNames {
  /** Pattern for role names, in which `{}` stands for the default name; the same for policies. */
  readonly roleNameFormat: string
  readonly policyNameFormat: string
  /** ARN of the role that the function runs under, unless it is the stack's own. */
  readonly aggregatorRole: string | null
  /** `null` before it exists: CloudFormation generates its name. */
  readonly archiveBucket: string | null
}

/** The parameters that differ from their defaults, and the outputs of a deployed stack. */
interface StackSettings {
  readonly parameters: {readonly chosen: ReadonlyArray<{readonly name: string; readonly value: string}>}
  readonly outputs: Readonly<Record<string, string>>
}

export const DEFAULT_NAMES: ResourceNames = {
  roleNameFormat: '{}',
  policyNameFormat: '{}',
  aggregatorRole: null,
  archiveBucket: null,
}

/** The names of a deployed stack, or the defaults where there is no stack. */
export function resourceNames(stack: StackSettings | null): ResourceNames {
  const chosen = (name: string) => stack?.parameters.chosen.find(each => each.name === name)?.value
  return {
    roleNameFormat: chosen('RoleNameFormat') ?? DEFAULT_NAMES.roleNameFormat,
    policyNameFormat: chosen('PolicyNameFormat') ?? DEFAULT_NAMES.policyNameFormat,
    aggregatorRole: chosen('AggregatorRoleArn') ?? DEFAULT_NAMES.aggregatorRole,
    archiveBucket: stack?.outputs.AuditArchiveBucketName ?? DEFAULT_NAMES.archiveBucket,
  }
}

/** Applies a name format to the default name of a role or policy. */
export function formattedName(format: string, name: string): string {
  return format.replace('{}', () => name)
}

const MAX_BUCKET_NAME_LENGTH = 63

/** A name like those that CloudFormation generates: stack and resource in lower case, and a random suffix. */
export function likelyBucketName(stack: string): string {
  const rest = '-auditarchivebucket-0123456789ab'
  return stack.toLowerCase().slice(0, MAX_BUCKET_NAME_LENGTH - rest.length) + rest
}
