import {InvalidInput} from '../../core/errors.js'
import {DEFAULT_PARAMETERS} from './options.js'

// Characters; limits of IAM and Lambda.
const MAX_ROLE_NAME_LENGTH = 64
const MAX_POLICY_NAME_LENGTH = 128
const MAX_FUNCTION_NAME_LENGTH = 64

// Measured: the function takes 75 MB, and 1,000 records up to 45 MB more.
const SMALL_MEMORY_BELOW_MB = 256
const MOST_RECORDS_OF_SMALL_MEMORY = 500

export function checkCombination(stack: string, parameters: Readonly<Record<string, string>>): void {
  const given: Readonly<Record<string, string>> = {...DEFAULT_PARAMETERS, ...parameters}
  const {RoleNameFormat = '', PolicyNameFormat = ''} = given
  const [hasIam, hasRoles, hasAggregator] = [given.EnableIAM, given.EnableIAMRoles, given.EnableAggregator].map(
    text => text === 'true',
  )
  const problems: {readonly message: string; readonly hint: string}[] = []
  const refuse = (message: string, hint: string) => problems.push({message, hint})
  const checkLength = (name: string, maxLength: number, what: string, hint: string) => {
    if (name.length <= maxLength) return
    const length = `${name.length} characters, but at most ${maxLength} are allowed`
    refuse(`The name of a ${what} would be "${name}": ${length}.`, hint)
  }
  if (!hasIam && hasRoles) refuse('--iam-roles and --no-iam exclude each other.', 'Use only one of them.')
  if (!hasIam && hasAggregator && given.AggregatorRoleArn === '') {
    const hint = 'Name a role with --aggregator-role, or deploy without the aggregator: --no-aggregator.'
    refuse('Without IAM, the aggregator has no role.', hint)
  }
  const [memory, records] = [Number(given.LambdaMemorySize), Number(given.StreamBatchSize)]
  if (hasAggregator && memory < SMALL_MEMORY_BELOW_MB && records > MOST_RECORDS_OF_SMALL_MEMORY) {
    const hint = `Give --lambda-memory ${SMALL_MEMORY_BELOW_MB} or more, or --batch-size ${MOST_RECORDS_OF_SMALL_MEMORY} or less.`
    refuse(`A batch of ${records} records does not fit into ${memory} MB; the function would fail.`, hint)
  }
  if (hasAggregator) {
    checkLength(`${stack}-aggregator`, MAX_FUNCTION_NAME_LENGTH, 'function', 'Choose a shorter name for the stack.')
  }
  if (hasIam) {
    const shorten = (flag: string) => `Choose a shorter name for the stack, or a shorter --${flag}.`
    const roleName = formattedName(RoleNameFormat, `${stack}-${hasRoles ? 'admin' : 'aggr'}`)
    checkLength(roleName, MAX_ROLE_NAME_LENGTH, 'role', shorten('role-name-format'))
    const policyName = formattedName(PolicyNameFormat, `${stack}-ns-full`)
    checkLength(policyName, MAX_POLICY_NAME_LENGTH, 'policy', shorten('policy-name-format'))
  }
  if (problems.length === 0) return
  throw new InvalidInput('deploy.options', problems.map(({message}) => message).join('\n'), {
    hint: [...new Set(problems.map(({hint}) => hint))].join(' '),
  })
}

function formattedName(format: string, name: string): string {
  return format.replace('{}', () => name)
}

// Characters; the limit of S3.
const MAX_BUCKET_NAME_LENGTH = 63

const BUCKET = 'auditarchivebucket'

/** Like the names that CloudFormation generates: stack and resource in lower case, then a random suffix. */
export function likelyBucketName(stack: string): string {
  const rest = `-${BUCKET}-0123456789ab`
  return stack.toLowerCase().slice(0, MAX_BUCKET_NAME_LENGTH - rest.length) + rest
}

/** CloudFormation shortens stack and resource where they are too long. */
export function bucketPattern(stack: string): string {
  const isShortened = stack.length + `-${BUCKET}-0123456789ab`.length > MAX_BUCKET_NAME_LENGTH
  return isShortened ? `${stack.toLowerCase().slice(0, 20)}*` : `${stack.toLowerCase()}-${BUCKET}-*`
}
