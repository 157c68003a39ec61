import {resourceSwitchArgs, resourceSwitchExamples, SwitchCommand} from '../../lib/cli/limits/switch-command.js'

export default class ResourceClear extends SwitchCommand<typeof ResourceClear> {
  static override summary = 'Remove the block or bypass of a resource'

  static override description =
    'Removes a block or a bypass, also from live buckets. Entities with their own switch (disable, bypass, ' +
    'exempt) keep it.'

  static override args = resourceSwitchArgs

  static override examples = resourceSwitchExamples('clear')
}
