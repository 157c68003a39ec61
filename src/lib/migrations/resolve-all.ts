import type {Table} from '../repository/table/table.js'
import {openLimiterTable} from './limiter-table.js'
import type {MigrationContext} from './records/finding.js'
import {isConflict, type MigrationConflict, type ResolveConflictOptions, type Side, settleConflict} from './resolve.js'
import {compareGroup, sortPage} from './walk/reconcile.js'
import {tablePages} from './walk/scan.js'
import {type RecordDifference, type Sample, Tally} from './walk/tally.js'

export interface ResolveAllOptions extends ResolveConflictOptions {
  /** Asked with the conflicts that there are, before the first is settled; throws to stop. */
  readonly confirm: (conflicts: Sample<RecordDifference>) => Promise<void>
  /** Called after each page with the number of conflicts met, and then of those settled. */
  readonly onProgress?: ((conflicts: number) => void) | undefined
}

export interface ResolveAllResult {
  readonly settled: number
  /** Those that others kept changing. */
  readonly left: Sample<RecordDifference>
}

/** Settles every conflict in the table the same way. Where there is none nobody is asked. */
export async function resolveAll(table: Table, keep: Side, options: ResolveAllOptions): Promise<ResolveAllResult> {
  const stage = await openLimiterTable(table, options)
  const found = new Tally()
  for await (const conflicts of conflictsIn(stage)) {
    for (const conflict of conflicts) found.found(conflict)
    options.onProgress?.(found.differences.count)
  }
  if (found.differences.count === 0) return {settled: 0, left: found.differences}
  await options.confirm(found.differences)
  const left = new Tally()
  let settled = 0
  for await (const conflicts of conflictsIn(stage)) {
    for (const conflict of conflicts) {
      if (await settleConflict(stage, conflict, keep)) settled++
      else left.found(conflict)
    }
    options.onProgress?.(settled)
  }
  return {settled, left: left.differences}
}

/** The conflicts of each page of the table. */
async function* conflictsIn(stage: MigrationContext): AsyncGenerator<MigrationConflict[]> {
  for await (const {items} of tablePages(stage)) {
    const conflicts: MigrationConflict[] = []
    for (const [type, found] of sortPage(stage, items).old) {
      conflicts.push(...(await compareGroup(stage, type, found)).filter(isConflict))
    }
    yield conflicts
  }
}
