import {readRealShards} from '../repository/buckets/split.js'
import type {BucketRecord} from '../schema/bucket-record.js'
import type {Admission, AdmissionRequest} from './admission.js'
import {explainRefusal, type Refusal} from './refusal.js'

/**
 * What a level would say that was not asked because the other one refused already: a wait that leaves it out would not be
 * true. It rests on what was last seen there, however long ago, since only competitors can have made that wrong; a level
 * never seen is looked at once. `undefined` when it would admit, or never could.
 */
export async function outlookOf(admission: Admission, request: AdmissionRequest): Promise<Refusal | undefined> {
  const {amounts, level} = request
  const records = seenRecords(admission, request) ?? (await readRecords(admission, request))
  const [first] = records
  if (!first) return undefined
  const asked = new Map([...amounts].filter(([name]) => first.state.limits.has(name)))
  const refusal = explainRefusal({records, amounts: asked, nowMs: admission.table.clock(), source: undefined}, level)
  const isRefused = refusal.statuses.some(status => status.exceeded) && Number.isFinite(refusal.retryAfterMs)
  return isRefused ? refusal : undefined
}

function seenRecords(admission: Admission, {entity, resource}: AdmissionRequest): BucketRecord[] | undefined {
  const records: BucketRecord[] = []
  for (let shard = 0; shard < (records[0]?.shardCount ?? 1); shard++) {
    const {known} = admission.desk({entity, resource, shard})
    if (!known) return undefined
    if (!known.exists || known.seen.record.shardCount > admission.settings.maxShards) return []
    records.push(known.seen.record)
  }
  return records
}

async function readRecords(admission: Admission, {entity, resource}: AdmissionRequest): Promise<BucketRecord[]> {
  const {table, settings} = admission
  const sinceMs = table.clock()
  const shards = await readRealShards(table, entity, resource, settings.maxShards)
  for (const [shard, record] of shards) admission.desk({entity, resource, shard}).learnRecord(record, sinceMs)
  return [...shards.values()]
}
