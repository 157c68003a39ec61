import {resourceSwitchArgs, resourceSwitchExamples, SwitchCommand} from '../../lib/cli/limits/switch-command.js'

export default class ResourceClear extends SwitchCommand<typeof ResourceClear> {
  static override summary = 'Remove the block or bypass of a resource'

  static override description = 'Removes a block or a bypass. Live buckets follow the switch that then applies to them.'

  static override args = resourceSwitchArgs

  static override examples = resourceSwitchExamples('clear')

  protected readonly verb = 'clear'
}
