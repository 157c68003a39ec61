import {InvalidInput} from '../../core/errors.js'
import {parameterText} from './option.js'
import {STACK_OPTIONS} from './options.js'
import {formattedName} from './resource-names.js'

// Characters; limits of IAM and Lambda.
const MAX_ROLE_NAME_LENGTH = 64
const MAX_POLICY_NAME_LENGTH = 128
const MAX_FUNCTION_NAME_LENGTH = 64

/** Checks combinations of options that the template's rules and the services would reject; absent ones have defaults. */
export function checkCombination(stack: string, given: Readonly<Record<string, string>>): void {
  const defaults = STACK_OPTIONS.map(option => [option.parameter, parameterText(option, option.default)])
  const parameters: Readonly<Record<string, string>> = {...Object.fromEntries(defaults), ...given}
  const isOn = (parameter: string) => parameters[parameter] === 'true'
  const {AggregatorRoleArn = '', RoleNameFormat = '', PolicyNameFormat = ''} = parameters

  if (!isOn('EnableIAM') && isOn('EnableIAMRoles')) {
    throw invalid('--iam-roles and --no-iam contradict each other.', 'Use one of them.')
  }
  if (!isOn('EnableIAM') && isOn('EnableAggregator') && AggregatorRoleArn === '') {
    const hint = 'Name a role with --aggregator-role, or deploy without the aggregator: --no-aggregator.'
    throw invalid('Without IAM the aggregator has no role to run under.', hint)
  }
  if (isOn('EnableAggregator')) {
    checkLength(`${stack}-aggregator`, MAX_FUNCTION_NAME_LENGTH, 'function', 'Choose a shorter name for the stack.')
  }
  if (!isOn('EnableIAM')) return
  const role = isOn('EnableIAMRoles') ? 'admin' : 'aggr'
  const shorten = (flag: string) => `Choose a shorter name for the stack, or a shorter --${flag}.`
  const roleName = formattedName(RoleNameFormat, `${stack}-${role}`)
  checkLength(roleName, MAX_ROLE_NAME_LENGTH, 'role', shorten('role-name-format'))
  const policyName = formattedName(PolicyNameFormat, `${stack}-ns-full`)
  checkLength(policyName, MAX_POLICY_NAME_LENGTH, 'policy', shorten('policy-name-format'))
}

function checkLength(name: string, maxLength: number, what: string, hint: string): void {
  if (name.length <= maxLength) return
  const message = `The name of a ${what} would be "${name}": ${name.length} characters, but at most ${maxLength} are allowed.`
  throw invalid(message, hint)
}

function invalid(message: string, hint: string): InvalidInput {
  return new InvalidInput('deploy.options', message, {hint})
}
