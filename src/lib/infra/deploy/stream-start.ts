import {ZaelError} from '../../core/errors.js'
import {parameterText} from '../stack/option.js'
import {STACK_OPTIONS} from '../stack/options.js'
import type {DeployedStack, StackResource} from '../stack/reader.js'
import {LOGICAL_ID} from '../stack/template.js'

type Parameters = Readonly<Record<string, string>>

/**
 * The starting position of a mapping cannot be changed. CloudFormation creates a new mapping before it deletes the old one,
 * and Lambda rejects a second mapping between the same stream and function: the update would fail and be rolled back.
 */
export function checkStreamStart(
  {name, parameters}: Pick<DeployedStack, 'name' | 'parameters'>,
  given: Parameters,
  resources: readonly StackResource[],
): void {
  const option = STACK_OPTIONS.find(each => each.name === 'streamStart')
  const requested = option && given[option.parameter]
  if (!option || requested === undefined || given.EnableAggregator === 'false') return
  const deployed = parameters[option.parameter] ?? parameterText(option, option.default)
  const isMapped = resources.some(({logicalId, physicalId}) => logicalId === LOGICAL_ID.mapping && physicalId !== null)
  if (!isMapped || requested === deployed) return
  const choice = (value: string) => option.choices?.find(each => parameterText(option, each) === value) ?? value
  throw startsElsewhere(name, choice(deployed), choice(requested))
}

function startsElsewhere(stack: string, deployed: string, asked: string): ZaelError {
  const steps = [
    `zael deploy --stack ${stack} --no-aggregator`,
    `zael deploy --stack ${stack} --aggregator --stream-start ${asked}`,
  ]
  return new ZaelError(
    'conflict',
    'deploy.stream-start',
    `The aggregator of "${stack}" started at ${deployed}; starting it at ${asked} takes two changes: ` +
      'CloudFormation creates the new mapping before it deletes the old one, and Lambda allows only one.',
    {
      hint:
        'Nothing was changed. Omit --stream-start, which applies only to a new aggregator. To create a new one, with a new ' +
        'dead-letter queue, logs and archive:\n' +
        steps.map((step, at) => `  ${at + 1}. ${step}`).join('\n'),
      details: {stack, deployed, asked, steps},
    },
  )
}
