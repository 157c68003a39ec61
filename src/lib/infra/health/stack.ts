import {parameterText} from '../stack/option.js'
import {STACK_OPTIONS} from '../stack/options.js'
import {type DeployedStack, deploymentOf} from '../stack/reader.js'
import type {ParameterDrift, StackPart} from './parts.js'

export function stackPart(stack: DeployedStack): StackPart {
  const {statusReason, role, owner, outputs, isTerminationProtected: terminationProtection} = stack
  const parameters = parameterDrift(stack.parameters)
  return {...deploymentOf(stack), statusReason, role, terminationProtection, owner, parameters, outputs}
}

/** How long the function waits for a batch to fill, in ms; the default when the stack could not be read. */
export function batchWindowMs(stack: StackPart | null): number {
  const option = STACK_OPTIONS.find(({name}) => name === 'batchWindow')
  const chosen = stack?.parameters.chosen.find(({name}) => name === option?.parameter)?.value
  return Number(chosen ?? option?.default) * 1000
}

export function parameterDrift(parameters: Readonly<Record<string, string>>): ParameterDrift {
  const options = new Map(STACK_OPTIONS.map(option => [option.parameter, option]))
  const chosen = Object.entries(parameters).flatMap(([name, value]) => {
    const option = options.get(name)
    const byDefault = option && parameterText(option, option.default)
    return byDefault === undefined || byDefault === value ? [] : [{name, value, default: byDefault || null}]
  })
  return {
    chosen,
    missing: [...options.keys()].filter(name => !(name in parameters)),
    unknown: Object.keys(parameters).filter(name => !options.has(name)),
  }
}
