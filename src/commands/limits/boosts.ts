import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {boostListing, boostsJson} from '../../lib/cli/limits/boost.js'
import type {LimitsBoostsResult} from '../../lib/cli/limits/results.js'
import {listFlags} from '../../lib/cli/output/listing.js'

export default class LimitsBoosts extends StackCommand<typeof LimitsBoosts> {
  static override summary = 'List limits that end by themselves'

  static override description =
    'Lists what `zael limits set --for` and `--until` have set, the next end first: until then the values under NOW apply, ' +
    'after it those under THEN, or what the next level says where the scope has limits only for the time of the boost. One ' +
    'that has ended is listed until it is tidied up. `zael limits unset --boost` ends one now.'

  static override flags = listFlags

  static override examples = [
    {command: 'zael limits boosts', description: 'All boosts of the namespace'},
    {command: 'zael limits boosts --json', description: 'As JSON'},
  ]

  protected async work(): Promise<LimitsBoostsResult> {
    const boosts = await (await this.stack.namespace()).configs.boosts()
    await this.list(boostListing(boosts))
    return {boosts: boostsJson(boosts)}
  }
}
