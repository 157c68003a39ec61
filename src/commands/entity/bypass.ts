import {
  entityLiftFlags,
  entitySwitchArgs,
  entitySwitchExamples,
  SwitchCommand,
  temporaryFlags,
} from '../../lib/cli/limits/switch-command.js'

export default class EntityBypass extends SwitchCommand<typeof EntityBypass> {
  static override summary = 'Admit and count every request of an entity'

  static override description =
    'Requests count in usage but consume no tokens. Processes follow within a second; a request larger than the ' +
    'capacity of a limit is admitted within a minute. A parent that is also charged keeps its own switch. The ' +
    'most specific switch applies: entity and resource, entity, resource. `zael entity clear` ends the bypass ' +
    'within a minute.'

  static override args = entitySwitchArgs

  static override flags = {...entityLiftFlags, ...temporaryFlags}

  static override examples = [
    ...entitySwitchExamples('bypass'),
    {command: 'zael entity bypass user-7 --for 30m', description: 'For half an hour'},
  ]

  protected readonly verb = 'bypass'
}
