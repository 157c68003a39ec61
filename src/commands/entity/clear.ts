import {
  entityRemoveFlags,
  entitySwitchArgs,
  entitySwitchExamples,
  SwitchCommand,
} from '../../lib/cli/limits/switch-command.js'

export default class EntityClear extends SwitchCommand<typeof EntityClear> {
  static override summary = 'Remove the block, bypass or exemption of an entity'

  static override description =
    'Removes the switch (a block, bypass or exemption), also from live buckets. A less specific switch then ' +
    'applies, if there is one: the switch of the entity for all resources, otherwise the switch of the resource.'

  static override args = entitySwitchArgs

  static override flags = entityRemoveFlags

  static override examples = entitySwitchExamples('clear')
}
