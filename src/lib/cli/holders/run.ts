import {groupBy} from '../../core/group-by.js'
import {paced} from '../../dynamo/rate-limit.js'
import {type HolderState, reservedOf, slotsByHolder, stateOf, waitForBeats} from '../../insight/holders/release.js'
import {HolderRecords} from '../../repository/buckets/holders.js'
import type {NamespaceTable, Table} from '../../repository/table/table.js'
import {nothingChanged} from '../output/interrupt.js'
import {withProgress} from '../output/progress.js'
import {type HolderRow, waitText} from './presenter.js'

/** A table of which buckets are read at this pace, in read units per second. */
export function pacedTable(table: Table, namespace: string, unitsPerSecond: number): NamespaceTable {
  return paced({...table, namespace}, 'reads', unitsPerSecond)
}

interface ListRequest {
  readonly limit: number | undefined
  readonly cursor: string | undefined
  readonly wait: boolean
  readonly slots: boolean
}

/** With slots, the last page also has holders of slots without a record. */
export async function listHolders(
  table: NamespaceTable,
  {limit, cursor, wait, slots}: ListRequest,
): Promise<{readonly rows: HolderRow[]; readonly next: string | undefined}> {
  const holders = new HolderRecords(table)
  return withProgress(
    async (line, signal) => {
      const {records, next} = await holders.list({limit, cursor})
      if (wait) await waitForBeats(table.backoff, {onWait: ms => line.draw(() => waitText(ms)), signal})
      const before = new Map(records.map(record => [record.id, record]))
      const after = wait ? await holders.getMany(before.keys()) : before
      const held = slots ? await slotsByHolder(holders, signal) : undefined
      const known = await holders.getMany([...(held?.keys() ?? [])].filter(id => !before.has(id)))
      const others = next === undefined ? [...(held?.keys() ?? [])].filter(id => !before.has(id) && !known.has(id)) : []
      const ids = [...before.keys(), ...others]
      const reservations = slots ? groupBy(await holders.reservations(ids), ({holder}) => holder) : undefined
      const rows = ids.flatMap((id): HolderRow[] => {
        const record = after.get(id)
        // It has ended meanwhile.
        if (wait && !record && before.has(id) && !held?.has(id)) return []
        const state: HolderState = wait || record?.isDead ? stateOf(before.get(id), record) : 'unknown'
        const reserved = reservations && reservedOf((reservations.get(id) ?? []).flatMap(({tokens}) => tokens))
        return [{id, record, state, held: held && (held.get(id) ?? []), reserved}]
      })
      return {rows, next}
    },
    () => nothingChanged('holders.interrupted'),
  )
}
