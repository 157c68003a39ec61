import {isoSeconds} from '../../schema/instant.js'
import {parameterText} from '../options/option.js'
import {STACK_OPTIONS} from '../options/options.js'
import type {DeployedStack} from '../stacks/reader.js'
import {type ParameterDrift, type StackPart, tagOf} from './parts.js'

/** What `status` tells of a CloudFormation stack. */
export function stackPart(stack: DeployedStack): StackPart {
  const {statusReason, owner, outputs} = stack
  return {...deploymentOf(stack), statusReason, owner, parameters: parameterDrift(stack.parameters), outputs}
}

/** The state of a stack, and who brought it there when, as far as its tags tell. */
export function deploymentOf({status, tags, createdAt, updatedAt}: DeployedStack) {
  return {
    status,
    version: tagOf(tags, 'version'),
    schemaVersion: tagOf(tags, 'schema-version'),
    createdAt: createdAt && isoSeconds(createdAt.getTime()),
    updatedAt: updatedAt && isoSeconds(updatedAt.getTime()),
  }
}

/** How long the function of a stack waits for a batch to fill, in ms; by default where nobody can tell. */
export function batchWindowMs(stack: StackPart | null): number {
  const option = STACK_OPTIONS.find(({name}) => name === 'batchWindow')
  const chosen = stack?.parameters.chosen.find(({name}) => name === option?.parameter)?.value
  return Number(chosen ?? option?.default) * 1000
}

/** The parameters of a stack against the options of this package; a test keeps those equal to its template. */
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
