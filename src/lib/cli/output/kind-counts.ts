import type {CountsByKind, RecordKind} from '../../repository/table/kind-counter.js'
import {plainTable} from './text-table.js'

export const KINDS = {
  entities: {words: ['entity', 'entities'], records: ['entity']},
  entityLimits: {words: ['configuration of an entity', 'configurations of entities'], records: ['entity-config']},
  resourceLimits: {words: ['configuration of a resource', 'configurations of resources'], records: ['resource-config']},
  systemLimits: {words: ['system configuration', 'system configurations'], records: ['system-config']},
  buckets: {words: ['bucket shard', 'bucket shards'], records: ['bucket']},
  operations: {words: ['recorded top-up or reset', 'recorded top-ups and resets'], records: ['operation']},
  usage: {words: ['usage snapshot', 'usage snapshots'], records: ['usage']},
  audit: {words: ['audit event', 'audit events'], records: ['audit']},
  registries: {
    words: ['registry', 'registries'],
    records: ['resource-registry', 'entity-config-registry', 'units', 'boost'],
  },
  provisioner: {
    words: ['manifest record', 'manifest records'],
    records: ['provisioner', 'provisioner-part', 'pending-apply', 'apply-lock', 'holder', 'reservation'],
  },
} as const satisfies Record<string, {words: readonly [one: string, many: string]; records: readonly RecordKind[]}>

export type KindCounts = Readonly<Record<keyof typeof KINDS | 'other' | 'total', number>>

export function kindCounts(byKind: CountsByKind): KindCounts {
  const sum = (records: readonly RecordKind[]) => records.reduce((total, record) => total + (byKind[record] ?? 0), 0)
  const total = sum(Object.keys(byKind) as RecordKind[])
  const known = Object.entries(KINDS).map(([kind, {records}]) => [kind, sum(records)] as const)
  const other = total - known.reduce((all, [, count]) => all + count, 0)
  return {...(Object.fromEntries(known) as Record<keyof typeof KINDS, number>), other, total}
}

export function kindLines(counts: KindCounts): string[] {
  const rows = kindWords(counts)
  const total = rows.length > 1 ? [['total', counts.total] as const] : []
  const lines = plainTable(
    [{header: ''}, {header: ''}],
    [...rows, ...total].map(([words, count]) => [words, count]),
    {header: false},
  )
  return lines.map(line => `  ${line}`)
}

function kindWords(counts: KindCounts): (readonly [words: string, count: number])[] {
  const known = Object.entries(KINDS).map(([kind, {words}]) => {
    const count = counts[kind as keyof typeof KINDS]
    return [words[count === 1 ? 0 : 1], count] as const
  })
  return [...known, ['items of other kinds', counts.other] as const].filter(([, count]) => count > 0)
}
