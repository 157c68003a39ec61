import type {Parameter} from '@aws-sdk/client-cloudformation'
import {parameterText} from '../stack/option.js'
import {STACK_OPTIONS} from '../stack/options.js'

/** A parameter that changes; `before` is its default on a new stack. */
export interface ParameterChange {
  readonly option: string
  readonly before: string
  readonly after: string
}

/** Parameters that are not given keep their value; those that are new in the template get their default. */
export function requestParameters(
  given: Readonly<Record<string, string>>,
  deployed: Readonly<Record<string, string>> = {},
): Parameter[] {
  return STACK_OPTIONS.flatMap(({parameter: ParameterKey}): Parameter[] => {
    const ParameterValue = given[ParameterKey]
    if (ParameterValue !== undefined) return [{ParameterKey, ParameterValue}]
    return ParameterKey in deployed ? [{ParameterKey, UsePreviousValue: true}] : []
  })
}

/** What changes. `former`: values of stacks that do not have the parameter yet; they change to the default. */
export function parameterChanges(
  given: Readonly<Record<string, string>>,
  deployed: Readonly<Record<string, string>> = {},
  former: Readonly<Record<string, string>>,
): ParameterChange[] {
  return STACK_OPTIONS.flatMap(option => {
    const {parameter} = option
    const byDefault = parameterText(option, option.default)
    const before = deployed[parameter] ?? former[parameter] ?? byDefault
    const after = given[parameter] ?? deployed[parameter] ?? byDefault
    return after === before ? [] : [{option: option.name, before, after}]
  })
}
