import {
  entitySwitchArgs,
  entitySwitchExamples,
  entitySwitchFlags,
  SwitchCommand,
  temporaryFlags,
} from '../../lib/cli/limits/switch-command.js'

export default class EntityDisable extends SwitchCommand<typeof EntityDisable> {
  static override summary = 'Refuse every request of an entity'

  static override description =
    'Once the command returns, no process admits a new request; only requests already in flight can still be ' +
    'admitted. Refused requests are not charged. Of several switches (disable, bypass, exempt), the most specific ' +
    'applies: entity and resource, then entity, then resource. `zael entity enable` ends the block.'

  static override args = entitySwitchArgs

  static override flags = {...entitySwitchFlags, ...temporaryFlags}

  static override examples = [
    ...entitySwitchExamples('disable'),
    {command: "zael entity disable key-9 --for 2h --reason 'chargeback 4711'", description: 'For two hours'},
  ]
}
