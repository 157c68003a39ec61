import {isoMinute} from '../../core/calendar/windows-until.js'
import {ZaelError} from '../../core/errors.js'
import {plainRate} from '../../core/limits/boost-text.js'
import {boostedOf, type Limit} from '../../core/limits/limit.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {ConfigRecord} from '../../schema/config-record.js'
import type {PrintOptions} from '../base/base-command.js'
import {interruptible} from '../output/interrupt.js'
import type {Listing} from '../output/listing.js'
import {keepHeapSmall, type LongDocument, longJson, longYaml} from '../output/long-list.js'
import {writeDocument} from '../output/write-lines.js'
import {scopeJson} from './json.js'

/** Deliberately invalid YAML: applying a truncated manifest would delete the missing limits. */
const INCOMPLETE = '} This manifest is incomplete: reading the table failed or was interrupted.\n'

export async function printManifest(
  namespace: NamespaceRepository,
  name: string,
  {format, after, onBegin}: PrintOptions,
): Promise<void> {
  keepHeapSmall()
  const [{manifestTexts, openExport}, {yamlText}] = await Promise.all([
    import('../../manifest/export.js'),
    import('../../files/yaml-text.js'),
  ])
  await interruptible(async signal => {
    if (format === 'table') {
      await writeDocument(marked(manifestTexts(namespace, name, signal)), onBegin)
      return
    }
    const {head, entities} = await openExport(namespace, name, signal)
    const document = {before: head, field: 'entities', parts: parts(entities), isOptional: true, after}
    await writeDocument(format === 'yaml' ? marked(longYaml(document, yamlText)) : longJson(document), onBegin)
  }, interrupted)
}

async function* parts(
  entities: AsyncIterable<readonly [id: string, form: unknown]>,
): LongDocument['parts'] & AsyncGenerator<Record<string, unknown>, void> {
  for await (const [id, form] of entities) yield {[id]: form}
}

/** JSON needs no mark: it lacks its last bracket. */
async function* marked(texts: AsyncIterable<string>): AsyncGenerator<string, void> {
  try {
    yield* texts
  } catch (error) {
    yield INCOMPLETE
    throw error
  }
}

const interrupted = (): ZaelError =>
  new ZaelError('interrupted', 'manifest.export-interrupted', 'Interrupted: the manifest is incomplete.')

type LimitRow = Pick<ConfigRecord, 'scope'> & {readonly limit: Limit}

export function limitRows(records: readonly ConfigRecord[]): Listing<LimitRow> {
  return {
    rows: records.flatMap(({scope, limits}) => limits.map(limit => ({scope, limit}))),
    columns: [
      {name: 'level', value: ({scope}) => scopeJson(scope).level},
      {name: 'entity', value: ({scope}) => scopeJson(scope).entity},
      {name: 'resource', value: ({scope}) => scopeJson(scope).resource},
      {name: 'limit', value: ({limit}) => limit.name},
      {name: 'value', value: ({limit}) => plainRate(limit)},
      {name: 'capacity', value: ({limit}) => limit.capacity},
      {name: 'refill-amount', value: ({limit}) => limit.refillAmount},
      {name: 'refill-period-seconds', value: ({limit}) => (limit.reset ? undefined : limit.refillPeriodSeconds)},
      {
        name: 'boosted-to',
        value: ({limit}) =>
          limit.boost?.isEnded ? undefined : boostedOf(limit) && plainRate(boostedOf(limit) as Limit),
      },
      {
        name: 'boosted-until',
        value: ({limit: {boost}}) => (boost && !boost.isEnded ? isoMinute(boost.untilMs) : undefined),
      },
      {name: 'unit', value: ({limit}) => limit.unit},
    ],
    empty: '',
  }
}
