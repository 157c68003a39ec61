import {InvalidInput} from '../../core/errors.js'
import {parameterText} from './option.js'
import {STACK_OPTIONS} from './options.js'
import {formattedName} from './resource-names.js'

// Characters, by IAM and Lambda.
const LONGEST_ROLE_NAME = 64
const LONGEST_POLICY_NAME = 128
const LONGEST_FUNCTION_NAME = 64

/** Demands of the options together what the template's rules and the services will demand; absent ones have defaults. */
export function checkCombination(stack: string, given: Readonly<Record<string, string>>): void {
  const defaults = STACK_OPTIONS.map(option => [option.parameter, parameterText(option, option.default)])
  const parameters: Readonly<Record<string, string>> = {...Object.fromEntries(defaults), ...given}
  const isOn = (parameter: string) => parameters[parameter] === 'true'
  const {AggregatorRoleArn = '', RoleNameFormat = '', PolicyNameFormat = ''} = parameters

  if (!isOn('EnableIAM') && isOn('EnableIAMRoles')) {
    throw clash('--iam-roles asks for roles and --no-iam forbids them.', 'Leave one of them out.')
  }
  if (!isOn('EnableIAM') && isOn('EnableAggregator') && AggregatorRoleArn === '') {
    const hint = 'Name a role with --aggregator-role, or go without the aggregator: --no-aggregator.'
    throw clash('Without IAM the aggregator has no role to run under.', hint)
  }
  if (isOn('EnableAggregator')) {
    checkLength(`${stack}-aggregator`, LONGEST_FUNCTION_NAME, 'function', 'Choose a shorter name for the stack.')
  }
  if (!isOn('EnableIAM')) return
  const role = isOn('EnableIAMRoles') ? 'admin' : 'aggr'
  const shorten = (flag: string) => `Choose a shorter name for the stack, or a shorter --${flag}.`
  checkLength(formattedName(RoleNameFormat, `${stack}-${role}`), LONGEST_ROLE_NAME, 'role', shorten('role-name-format'))
  const policy = formattedName(PolicyNameFormat, `${stack}-ns-full`)
  checkLength(policy, LONGEST_POLICY_NAME, 'policy', shorten('policy-name-format'))
}

function checkLength(name: string, longest: number, what: string, hint: string): void {
  if (name.length <= longest) return
  throw clash(`The name of a ${what} would be "${name}": ${name.length} characters, of ${longest} allowed.`, hint)
}

function clash(message: string, hint: string): InvalidInput {
  return new InvalidInput('deploy.options', message, {hint})
}
