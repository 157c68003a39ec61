import {
  entityRemoveFlags,
  entitySwitchArgs,
  entitySwitchExamples,
  SwitchCommand,
} from '../../lib/cli/limits/switch-command.js'

export default class EntityClear extends SwitchCommand<typeof EntityClear> {
  static override summary = 'Remove the block, bypass or exemption of an entity'

  static override description =
    'Removes a block, a bypass or an exemption, also from live buckets. The next switch then applies: the switch ' +
    'of the entity for all resources, or else the switch of the resource.'

  static override args = entitySwitchArgs

  static override flags = entityRemoveFlags

  static override examples = entitySwitchExamples('clear')
}
