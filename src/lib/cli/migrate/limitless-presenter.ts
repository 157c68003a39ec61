import type {Limit} from '../../core/limits/limit.js'
import {formatLimit} from '../../core/limits/limit-text.js'
import {formatCount, formatPlural} from '../../core/text/text.js'
import type {Limitless, LimitlessResource} from '../../migrate/limitless/tally.js'
import type {LimitsWritten} from '../../migrate/walk/write-limits.js'
import {PLACEHOLDER_NAMESPACE} from '../../schema/legacy-key.js'
import {limitJson} from '../limits/json.js'
import {agree} from '../output/confirm.js'
import {textTable} from '../output/text-table.js'
import type {LimitlessJson} from './results.js'

const PRINTED = 20

export async function limitlessLines(limitless: Limitless, width: number | undefined): Promise<string[]> {
  const {buckets, resources, unlisted} = limitless
  if (buckets === 0) return []
  const shown = resources.slice(0, PRINTED)
  const table = await textTable(
    ['RESOURCE', 'NAMESPACE', 'BUCKETS', 'MOST COMMON LIMITS', 'OTHERS'].map(header => ({header})),
    shown.map(row => [
      row.resource,
      row.namespaceName,
      row.buckets,
      row.common ? limitsText(row.common) : 'all differ',
      row.exceptions,
    ]),
    {header: true, width},
  )
  const more = unlisted + resources.slice(PRINTED).reduce((sum, row) => sum + row.buckets, 0)
  return [
    '',
    `${formatPlural(buckets, 'bucket')} without configured limits; requests for ${buckets === 1 ? 'it' : 'them'} fail:`,
    ...table,
    ...(more === 0 ? [] : [`and ${formatPlural(more, 'bucket')} of other resources`]),
    ...exceptionLines(shown),
    ...underivableLines(resources),
  ]
}

function exceptionLines(resources: readonly LimitlessResource[]): string[] {
  const exceptions = resources.flatMap(({resource, shownExceptions}) =>
    shownExceptions.map(({entity, limits}) => `  ${entity} ${resource}: ${limitsText(limits)}`),
  )
  const count = resources.reduce((sum, row) => sum + row.exceptions, 0)
  if (count === 0) return []
  const shown = exceptions.slice(0, PRINTED)
  const more = count > shown.length ? [`  and ${formatCount(count - shown.length)} more`] : []
  return ['Others:', ...shown, ...more]
}

function underivableLines(resources: readonly LimitlessResource[]): string[] {
  const count = resources.reduce((sum, {underivable}) => sum + underivable, 0)
  if (count === 0) return []
  return [`zael cannot derive limits from ${formatPlural(count, 'bucket')}; set them manually.`]
}

const limitsText = (limits: readonly Limit[]): string => limits.map(limit => formatLimit(limit)).join(' ')

export function limitsWrittenLines(written: LimitsWritten | undefined): string[] {
  if (!written) return []
  const {resources, entities} = written
  const levels = `${formatPlural(resources, 'resource')} and ${formatCount(entities)} single ${entities === 1 ? 'bucket' : 'buckets'}`
  return ['', `Wrote limits from the buckets for ${levels}`]
}

export async function offerLimits(limitless: Limitless | undefined): Promise<boolean> {
  if (!limitless || limitless.buckets === 0) return false
  return agree(`${formatPlural(limitless.buckets, 'bucket')} without configured limits. Write the limits shown above?`)
}

export function limitlessJson({buckets, resources, unlisted}: Limitless): LimitlessJson {
  return {
    buckets,
    resources: resources.map(row => ({
      namespace: row.namespace === PLACEHOLDER_NAMESPACE ? null : row.namespace,
      resource: row.resource,
      buckets: row.buckets,
      entities: row.entities,
      common: row.common?.map(limitJson) ?? null,
      exceptions: {
        count: row.exceptions,
        shown: row.shownExceptions.map(({entity, limits}) => ({entity, limits: limits.map(limitJson)})),
      },
      underivable: row.underivable,
    })),
    unlisted,
  }
}
