import type {ConsumedCapacity} from '@aws-sdk/client-dynamodb'

/** The cost of a request in a table and in its indexes. */
export interface Units {
  readonly table: number
  readonly indexes: Readonly<Record<string, number>>
}

export function sumOf(all: readonly Units[]): Units {
  const indexes: Record<string, number> = {}
  let table = 0
  for (const units of all) {
    table += units.table
    for (const [name, count] of Object.entries(units.indexes)) indexes[name] = (indexes[name] ?? 0) + count
  }
  return {table, indexes}
}

/** A read unit pays for four kilobytes, or for eight if eventually consistent. */
export function readUnits(bytes: number, isConsistent: boolean | undefined): number {
  return Math.max(1, Math.ceil(bytes / 4096)) * (isConsistent ? 1 : 0.5)
}

/** As reported; `undefined` if not requested. */
export function reportedCapacity(
  wanted: string | undefined,
  table: string,
  units: Units,
  kind?: 'ReadCapacityUnits' | 'WriteCapacityUnits',
): ConsumedCapacity | undefined {
  if (wanted === undefined || wanted === 'NONE') return undefined
  const unitsOf = (count: number) => ({CapacityUnits: count, ...(kind && {[kind]: count})})
  const indexes = Object.entries(units.indexes)
  const total = indexes.reduce((sum, [, count]) => sum + count, units.table)
  if (wanted === 'TOTAL') return {TableName: table, ...unitsOf(total)}
  return {
    TableName: table,
    ...unitsOf(total),
    Table: unitsOf(units.table),
    ...(indexes.length > 0 && {
      GlobalSecondaryIndexes: Object.fromEntries(indexes.map(([name, count]) => [name, unitsOf(count)])),
    }),
  }
}
