import type {BucketName} from '../../core/names.js'
import {toTokens} from '../../core/token-math.js'
import {mayReturn} from '../../repository/buckets/reservations.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import type {HolderRecord} from '../../schema/holder-record.js'
import type {Reservation} from '../../schema/reservation-record.js'

/** A process that has reserved tokens of one quota. */
export interface ReservedBy {
  readonly id: string
  readonly record: HolderRecord
  /** Whole tokens that would come back now. */
  readonly tokens: number
}

/** Bounds the reads: each holder's partition is read. */
const MOST_HOLDERS = 100

/** The first holders of a namespace, with their open reservations. */
export type OpenReservations = readonly {readonly record: HolderRecord; readonly open: readonly Reservation[]}[]

/** Reads once, when it is first called. */
export function reservationReader({holders}: Pick<NamespaceRepository, 'holders'>): () => Promise<OpenReservations> {
  const read = async (): Promise<OpenReservations> => {
    const {records} = await holders.list({limit: MOST_HOLDERS})
    const all = await holders.reservations(records.map(({id}) => id))
    return records.map(record => ({record, open: all.filter(({holder}) => holder === record.id)}))
  }
  let reading: Promise<OpenReservations> | undefined
  return () => {
    reading ??= read()
    return reading
  }
}

/** Most first, without tokens of a former period or bucket. */
export function reservedByHolder(
  all: OpenReservations,
  {entity, resource}: BucketName,
  name: string,
  records: readonly BucketRecord[],
): ReservedBy[] {
  const holders = all.map(({record, open}): ReservedBy => {
    const milli = open
      .flatMap(({tokens}) => tokens)
      .filter(each => {
        const {shard} = each
        const item = records.find(bucket => bucket.shard === shard)
        const isHere = each.entity === entity && each.resource === resource && each.limit === name
        return isHere && item !== undefined && mayReturn(each, item)
      })
      .reduce((sum, each) => sum + each.milli, 0n)
    return {id: record.id, record, tokens: toTokens(milli)}
  })
  return holders.filter(({tokens}) => tokens > 0).sort((a, b) => b.tokens - a.tokens || (a.id < b.id ? -1 : 1))
}
