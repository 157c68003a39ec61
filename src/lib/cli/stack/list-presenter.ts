import type {ListedStack, RefusedRegion} from '../../infra/stacks/list.js'
import type {Listing} from '../output/listing.js'

/** Stacks as rows; the region only counts where there are several. */
export function stackListing(stacks: readonly ListedStack[], where: {allRegions: boolean}): Listing<ListedStack> {
  return {
    rows: stacks,
    columns: [
      {name: 'name', value: ({name}) => name},
      {name: 'region', value: ({region}) => region, isExtra: !where.allRegions},
      {name: 'tool', value: ({tool}) => tool},
      {name: 'status', value: ({status}) => status.toLowerCase().replaceAll('_', ' '), raw: ({status}) => status},
      {name: 'version', value: ({version}) => version},
      {name: 'layout', value: ({schemaVersion}) => schemaVersion, isExtra: true},
      {name: 'created', fit: 'spare', value: ({createdAt}) => createdAt},
      {name: 'updated', value: ({updatedAt}) => updatedAt, isExtra: true},
    ],
    empty: where.allRegions ? 'No stacks in any region' : 'No stacks here; `zael deploy` makes one',
  }
}

/** One line per region that could not be asked. */
export function refusedLines(refused: readonly RefusedRegion[]): string[] {
  return refused.map(({region, reason}) => `${region} could not be asked: ${reason}`)
}
