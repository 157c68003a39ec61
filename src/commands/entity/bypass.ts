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
    'Requests count in usage but consume no tokens. Takes effect within a second; for requests above the capacity ' +
    'of a limit, within a minute. The limits of a parent that is also charged still apply. Of several switches (disable, ' +
    'bypass, exempt), the most specific applies: entity and resource, then entity, then resource. `zael entity ' +
    'clear` ends the bypass within a minute.'

  static override args = entitySwitchArgs

  static override flags = {...entityLiftFlags, ...temporaryFlags}

  static override examples = [
    ...entitySwitchExamples('bypass'),
    {command: 'zael entity bypass user-7 --for 30m', description: 'For half an hour'},
  ]
}
