import {
  entityLiftFlags,
  entitySwitchArgs,
  entitySwitchExamples,
  SwitchCommand,
} from '../../lib/cli/limits/switch-command.js'

export default class EntityEnable extends SwitchCommand<typeof EntityEnable> {
  static override summary = 'End `zael entity disable`'

  static override description =
    'Removes the block, and nothing else: a switch in another position stays. Processes admit requests within a ' +
    'second. A resource that is disabled for every entity stays disabled: `zael entity exempt` admits one entity.'

  static override args = entitySwitchArgs

  static override flags = entityLiftFlags

  static override examples = entitySwitchExamples('enable')

  protected readonly verb = 'enable'
}
