import {
  entityLiftFlags,
  entitySwitchArgs,
  entitySwitchExamples,
  SwitchCommand,
} from '../../lib/cli/limits/switch-command.js'

export default class EntityExempt extends SwitchCommand<typeof EntityExempt> {
  static override summary = 'Admit an entity although a resource is disabled'

  static override description =
    'The limits of the entity apply, whatever the switch of a resource is, now and later: `zael resource disable` ' +
    'and `bypass` do not concern the entity. The most specific switch applies: entity and resource, entity, ' +
    'resource. `zael entity clear` ends the exemption.'

  static override args = entitySwitchArgs

  static override flags = entityLiftFlags

  static override examples = entitySwitchExamples('exempt')

  protected readonly verb = 'exempt'
}
