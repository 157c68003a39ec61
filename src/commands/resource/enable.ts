import {resourceSwitchArgs, resourceSwitchExamples, SwitchCommand} from '../../lib/cli/limits/switch-command.js'

export default class ResourceEnable extends SwitchCommand<typeof ResourceEnable> {
  static override summary = 'Unblock a disabled resource'

  static override description =
    'Removes only a block; a bypass is kept. Within a second, processes admit requests again, up to their limits. ' +
    'If an entity has its own switch (disable, bypass, exempt), that switch applies.'

  static override args = resourceSwitchArgs

  static override examples = resourceSwitchExamples('enable')
}
