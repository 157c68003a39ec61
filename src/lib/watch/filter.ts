import type {Reading, RowStatus} from './model.js'

/** Whether a bucket is one of those that somebody wants to see. */
export type Chooser = (reading: Pick<Reading, 'bucket'>, status: RowStatus) => boolean

/** A name is one whole word in its own case; the beginning of a status is enough, as the word is being typed. */
const FIELDS: Readonly<Record<string, (wanted: string) => Chooser>> = {
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

/** What a filter means: part of a name, `status:over`, `resource:gpt-4`, `entity:ada`; `!` in front inverts. */
export function chooser(filter: string): Chooser {
  const typed = filter.trim()
  const isInverted = typed.startsWith('!')
  const text = isInverted ? typed.slice(1) : typed
  const [, field = '', wanted = text] = /^(status|entity|resource):(.*)$/i.exec(text) ?? []
  // Nobody has said yet which.
  if (wanted === '') return () => true
  const isOne = FIELDS[field.toLowerCase()]?.(wanted) ?? partOfName(text)
  return (reading, status) => isOne(reading, status) !== isInverted
}

/** The filter for the buckets of one resource, and for no others. */
export const resourceFilter = (resource: string): string => `resource:${resource}`

function partOfName(text: string): Chooser {
  const part = text.toLowerCase()
  const has = (name: string) => name.toLowerCase().includes(part)
  return ({bucket}) => has(bucket.entity) || has(bucket.resource)
}
