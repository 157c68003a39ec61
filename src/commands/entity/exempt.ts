import {
  entityLiftFlags,
  entitySwitchArgs,
  entitySwitchExamples,
  SwitchCommand,
} from '../../lib/cli/limits/switch-command.js'

export default class EntityExempt extends SwitchCommand<typeof EntityExempt> {
  static override summary = 'Admit an entity although a resource is disabled'

  static override description =
    'The limits of the entity apply even if `zael resource disable` or `zael resource bypass` is in force, now or ' +
    'later. Of several switches (disable, bypass, exempt), the most specific applies: entity and resource, then ' +
    'entity, then resource. `zael entity clear` ends the exemption.'

  static override args = entitySwitchArgs

  static override flags = entityLiftFlags

  static override examples = entitySwitchExamples('exempt')
}
