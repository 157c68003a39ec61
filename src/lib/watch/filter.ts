import type {Reading, RowStatus} from './model.js'

/** Whether a bucket matches a filter. */
export type BucketFilter = (reading: Pick<Reading, 'bucket'>, status: RowStatus) => boolean

/** Names match as a whole and by case; a status matches by prefix, because it may still be being typed. */
const FIELDS: Readonly<Record<string, (wanted: string) => BucketFilter>> = {
  status: wanted => {
    const beginning = wanted.toLowerCase()
    return (_, status) => status.startsWith(beginning)
  },
  entity:
    wanted =>
    ({bucket}) =>
      bucket.entity === wanted,
  resource:
    wanted =>
    ({bucket}) =>
      bucket.resource === wanted,
}

/** Parses a filter: part of a name, `status:over`, `resource:gpt-4`, `entity:ada`; `!` in front inverts. */
export function parseFilter(filter: string): BucketFilter {
  const typed = filter.trim()
  const isInverted = typed.startsWith('!')
  const text = isInverted ? typed.slice(1) : typed
  const [, field = '', wanted = text] = /^(status|entity|resource):(.*)$/i.exec(text) ?? []
  // Still being typed.
  if (wanted === '') return () => true
  const matches = FIELDS[field.toLowerCase()]?.(wanted) ?? partOfName(text)
  return (reading, status) => matches(reading, status) !== isInverted
}

/** The filter for the buckets of exactly one resource. */
export const resourceFilter = (resource: string): string => `resource:${resource}`

function partOfName(text: string): BucketFilter {
  const part = text.toLowerCase()
  const has = (name: string) => name.toLowerCase().includes(part)
  return ({bucket}) => has(bucket.entity) || has(bucket.resource)
}
