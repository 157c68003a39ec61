import type {Table} from '../repository/table/table.js'
import {openLimiterTable} from './limiter-table.js'
import {classifyPage} from './records/classified-page.js'
import type {MigrationContext} from './records/finding.js'
import {isConflict, keepSide, type MigrationConflict, type ResolveConflictOptions, type Side} from './resolve.js'
import {compareGroup} from './walk/reconcile.js'
import {MigrationReport, type RecordDifference, type Sample} from './walk/report.js'
import {tablePages} from './walk/scan.js'

export interface ResolveAllOptions extends ResolveConflictOptions {
  /** Called with the conflicts before the first is resolved; throws to stop. */
  readonly confirm: (conflicts: Sample<RecordDifference>) => Promise<void>
  /** Called after each page with the number of conflicts found, and later of those resolved. */
  readonly onProgress?: ((conflicts: number) => void) | undefined
}

export interface ResolveAllResult {
  readonly settled: number
  /** Conflicts that are not resolved because other clients kept changing the records. */
  readonly left: Sample<RecordDifference>
}

/** Resolves every conflict in the table the same way. If there is none, there is no confirmation. */
export async function resolveAll(table: Table, side: Side, options: ResolveAllOptions): Promise<ResolveAllResult> {
  const context = await openLimiterTable(table, options)
  const found = new MigrationReport()
  for await (const conflicts of conflictsByPage(context)) {
    for (const conflict of conflicts) found.addFinding(conflict)
    options.onProgress?.(found.differences.count)
  }
  if (found.differences.count === 0) return {settled: 0, left: found.differences}
  await options.confirm(found.differences)
  const left = new MigrationReport()
  let settled = 0
  for await (const conflicts of conflictsByPage(context)) {
    for (const conflict of conflicts) {
      if (await keepSide(context, conflict, side)) settled++
      else left.addFinding(conflict)
    }
    options.onProgress?.(settled)
  }
  return {settled, left: left.differences}
}

async function* conflictsByPage(context: MigrationContext): AsyncGenerator<MigrationConflict[]> {
  for await (const {items} of tablePages(context)) {
    const conflicts: MigrationConflict[] = []
    for (const [type, old] of classifyPage(context, items).old) {
      conflicts.push(...(await compareGroup(context, type, old)).filter(isConflict))
    }
    yield conflicts
  }
}
