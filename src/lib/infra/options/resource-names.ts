import type {StackPart} from '../health/parts.js'

/** Names that a stack was given, or those that it would be given. */
export interface ResourceNames {
  /** Of a role with `{}` for its usual name; the same of a policy. */
  readonly roleNameFormat: string
  readonly policyNameFormat: string
  /** The role that the function runs under, where it is not the stack's own; an ARN. */
  readonly aggregatorRole: string | null
  /** `null` before there is one: its name ends in letters that CloudFormation makes up. */
  readonly archiveBucket: string | null
}

/** Without a word to the contrary. */
export const DEFAULT_NAMES: ResourceNames = {
  roleNameFormat: '{}',
  policyNameFormat: '{}',
  aggregatorRole: null,
  archiveBucket: null,
}

/** The names of a deployed stack, by its parameters and outputs; the usual ones where there is none. */
export function resourceNames(part: Pick<StackPart, 'parameters' | 'outputs'> | null): ResourceNames {
  const chosen = (name: string) => part?.parameters.chosen.find(each => each.name === name)?.value
  return {
    roleNameFormat: chosen('RoleNameFormat') ?? DEFAULT_NAMES.roleNameFormat,
    policyNameFormat: chosen('PolicyNameFormat') ?? DEFAULT_NAMES.policyNameFormat,
    aggregatorRole: chosen('AggregatorRoleArn') ?? DEFAULT_NAMES.aggregatorRole,
    archiveBucket: part?.outputs.AuditArchiveBucketName ?? DEFAULT_NAMES.archiveBucket,
  }
}

/** What a role or policy is called under a format. */
export function formattedName(format: string, name: string): string {
  return format.replace('{}', () => name)
}

const LONGEST_BUCKET_NAME = 63

/** A name like those that CloudFormation makes up: the stack's in small letters, the resource's, a word of its own. */
export function likelyBucketName(stack: string): string {
  const rest = '-auditarchivebucket-0123456789ab'
  return stack.toLowerCase().slice(0, LONGEST_BUCKET_NAME - rest.length) + rest
}
