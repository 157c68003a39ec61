import {
  resourceSwitchArgs,
  resourceSwitchExamples,
  SwitchCommand,
  temporaryFlags,
} from '../../lib/cli/limits/switch-command.js'

export default class ResourceDisable extends SwitchCommand<typeof ResourceDisable> {
  static override summary = 'Refuse every request for a resource'

  static override description =
    'Once the command returns, no process admits a new request; only requests already in flight can still be ' +
    'admitted. Refused requests are not charged. If an entity has its own switch (disable, bypass, exempt), that ' +
    'switch applies. `zael resource enable` ends the block.'

  static override args = resourceSwitchArgs

  static override flags = temporaryFlags

  static override examples = [
    ...resourceSwitchExamples('disable'),
    {command: 'zael resource disable gpt-4 --for 30m', description: 'For half an hour'},
  ]
}
