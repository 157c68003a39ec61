import {isoSeconds} from '../schema/instant.js'
import {type ParameterDrift, type StackPart, tagOf} from './health-parts.js'
import {parameterText} from './stack-option.js'
import {STACK_OPTIONS} from './stack-options.js'
import type {DeployedStack} from './stack-reader.js'

/** What `status` tells of a CloudFormation stack. */
export function stackPart(stack: DeployedStack): StackPart {
  const {status, statusReason, owner, createdAt, updatedAt, tags, outputs} = stack
  return {
    status,
    statusReason,
    owner,
    version: tagOf(tags, 'version'),
    schemaVersion: tagOf(tags, 'schema-version'),
    createdAt: createdAt && isoSeconds(createdAt.getTime()),
    updatedAt: updatedAt && isoSeconds(updatedAt.getTime()),
    parameters: parameterDrift(stack.parameters),
    outputs,
  }
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
