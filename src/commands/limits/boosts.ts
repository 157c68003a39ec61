import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {boostListing, boostsJson} from '../../lib/cli/limits/boost.js'
import type {LimitsBoostsResult} from '../../lib/cli/limits/results.js'
import {listFlags} from '../../lib/cli/output/listing.js'

export default class LimitsBoosts extends StackCommand<typeof LimitsBoosts> {
  static override summary = 'List temporary limits'

  static override description =
    'Lists limits set with `zael limits set --for` or `--until`, by expiry. NOW is the current value, THEN ' +
    'the value after expiry, with the level that sets it. `zael limits unset --boost` ends one early. Expired limits are listed until the ' +
    'aggregator removes them.'

  static override flags = listFlags

  static override examples = [
    {command: 'zael limits boosts', description: 'All temporary limits of the namespace'},
    {command: 'zael limits boosts --json', description: 'As JSON'},
  ]

  protected async work(): Promise<LimitsBoostsResult> {
    const namespace = await this.stack.namespace()
    const {levelsAfter} = await import('../../lib/insight/preview/level-limits.js')
    const boosts = await namespace.configs.boosts()
    await this.list(boostListing(boosts, await levelsAfter(namespace, boosts)))
    return {boosts: boostsJson(boosts)}
  }
}
