import {ZaelError} from '../../core/errors.js'
import {checkEntityId, checkResourceName} from '../../core/names.js'
import {type Reading, ROW_STATUSES, type RowStatus} from './model.js'

export type BucketFilter = (reading: Pick<Reading, 'bucket'>, status: RowStatus) => boolean

/** Names match whole and by case. A prefix of a status matches too: the user may still be typing. */
const FIELDS: Readonly<Record<string, (wanted: string) => BucketFilter>> = {
  status: wanted => {
    const typed = wanted.toLowerCase()
    const isWhole = ROW_STATUSES.some(each => each === typed)
    return (_, status) => (isWhole ? status === typed : status.startsWith(typed))
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

interface TypedFilter {
  readonly isInverted: boolean
  readonly field: string
  readonly wanted: string
  readonly text: string
}

function partsOf(filter: string): TypedFilter {
  const typed = filter.trim()
  const isInverted = typed.startsWith('!')
  const text = isInverted ? typed.slice(1) : typed
  const [, field = '', wanted = text] = /^(status|entity|resource):(.*)$/i.exec(text) ?? []
  return {isInverted, field: field.toLowerCase(), wanted, text}
}

export function parseFilter(filter: string): BucketFilter {
  const {isInverted, field, wanted, text} = partsOf(filter)
  if (wanted === '') return () => true
  const matches = FIELDS[field]?.(wanted) ?? partOfName(text)
  return (reading, status) => matches(reading, status) !== isInverted
}

function partOfName(text: string): BucketFilter {
  const part = text.toLowerCase()
  const has = (name: string) => name.toLowerCase().includes(part)
  return ({bucket}) => has(bucket.entity) || has(bucket.resource)
}

/** `undefined`: the filter is valid. A prefix of a status is valid too. */
export function filterProblem(filter: string): string | undefined {
  const {field, wanted} = partsOf(filter)
  try {
    if (field === 'entity') checkEntityId(wanted)
    if (field === 'resource') checkResourceName(wanted)
  } catch (error) {
    if (error instanceof ZaelError) return error.message
    throw error
  }
  if (field !== 'status' || ROW_STATUSES.some(status => status.startsWith(wanted.toLowerCase()))) return undefined
  return `not a status: ${ROW_STATUSES.join(', ')}`
}

export const resourceFilter = (resource: string): string => `resource:${resource}`
