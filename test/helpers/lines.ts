import {type ListFlagValues, type Listing, listingCsv, listingLines} from '../../src/lib/cli/output/listing.js'
import type {Cell, TextColumn} from '../../src/lib/cli/output/table-layout.js'
import {type TextTableOptions, textTable} from '../../src/lib/cli/output/text-table.js'
import type {Preview} from '../../src/lib/insight/preview/preview.js'

/** All lines of a list, as on a pipe of that width. */
export async function listed<Row>(listing: Listing<Row>, flags: ListFlagValues, width?: number): Promise<string[]> {
  return [...(await listingLines(listing, flags, width))]
}

/** All lines of a list in CSV. */
export function listedCsv<Row>(listing: Listing<Row>, flags: ListFlagValues): string[] {
  return [...listingCsv(listing, flags)]
}

/** All lines of a table. */
export async function tabled(
  columns: readonly TextColumn[],
  rows: readonly (readonly Cell[])[],
  options: TextTableOptions,
): Promise<string[]> {
  return [...(await textTable(columns, rows, options))]
}

/** The preview of a change without effect on live buckets. */
export const NO_EFFECT: Preview = {
  entities: 0,
  buckets: 0,
  others: 0,
  isComplete: true,
  lost: [],
  losing: 0,
  unconfigured: 0,
  quotas: [],
  altered: [],
}
