import {
  entityRemoveFlags,
  entitySwitchArgs,
  entitySwitchExamples,
  SwitchCommand,
} from '../../lib/cli/limits/switch-command.js'

export default class EntityEnable extends SwitchCommand<typeof EntityEnable> {
  static override summary = 'Unblock a disabled entity'

  static override description =
    'Removes only a block; a bypass or an exemption is kept. Processes admit requests again within a second. A ' +
    'resource that is disabled for every entity stays disabled: `zael entity exempt` admits one entity.'

  static override args = entitySwitchArgs

  static override flags = entityRemoveFlags

  static override examples = entitySwitchExamples('enable')
}
