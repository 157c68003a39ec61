import {ZaelError} from '../../core/errors.js'
import {parameterText} from '../options/option.js'
import {STACK_OPTIONS} from '../options/options.js'
import type {DeployedStack, StackResource} from '../stacks/reader.js'
import {LOGICAL_ID} from '../stacks/template.js'

type Parameters = Readonly<Record<string, string>>

/**
 * Where a mapping starts cannot be changed. CloudFormation makes a new one before it deletes the old one, and Lambda
 * refuses a second mapping between the same stream and function: such an update would fail and be rolled back.
 */
export function checkStreamStart(
  {name, parameters}: Pick<DeployedStack, 'name' | 'parameters'>,
  stated: Parameters,
  resources: readonly StackResource[],
): void {
  const option = STACK_OPTIONS.find(each => each.name === 'streamStart')
  const asked = option && stated[option.parameter]
  if (!option || asked === undefined || stated.EnableAggregator === 'false') return
  const deployed = parameters[option.parameter] ?? parameterText(option, option.default)
  const isMapped = resources.some(({logicalId, physicalId}) => logicalId === LOGICAL_ID.mapping && physicalId !== null)
  if (!isMapped || asked === deployed) return
  const word = (value: string) => option.choices?.find(each => parameterText(option, each) === value) ?? value
  throw startsElsewhere(name, word(deployed), word(asked))
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
      'CloudFormation makes the new mapping before it deletes the old one, and Lambda allows one.',
    {
      hint:
        'Nothing was changed. Leave --stream-start out: it says only where a new aggregator starts. To have a new one, with new dead ' +
        'letters, logs and archive (docs/deploying.md#parts-that-are-gone tells how to keep them):\n' +
        steps.map((step, at) => `  ${at + 1}. ${step}`).join('\n'),
      details: {stack, deployed, asked, steps},
    },
  )
}
