import {ZaelError} from '../../core/errors.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import {interruptible} from '../output/interrupt.js'
import {type LongDocument, longJson, longYaml} from '../output/long-document.js'
import type {OutputFormat} from '../output/output-format.js'
import {keepHeapSmall} from '../output/small-heap.js'
import {writeDocument} from '../output/write-lines.js'

interface ExportOptions {
  readonly format: OutputFormat
  readonly after: () => object
  readonly onBegin: () => void
}

/** No YAML: applied, the beginning of a manifest would delete the limits that are missing. */
const INCOMPLETE = '} This manifest is incomplete: reading the table failed or was interrupted.\n'

export async function printManifest(
  namespace: NamespaceRepository,
  name: string,
  {format, after, onBegin}: ExportOptions,
): Promise<void> {
  keepHeapSmall()
  const [{MANIFEST_YAML, manifestTexts, openExport}, {yamlText}] = await Promise.all([
    import('../../manifest/export.js'),
    import('../output/yaml-text.js'),
  ])
  await interruptible(async signal => {
    if (format === 'table') {
      const yaml = (form: object) => yamlText(form, MANIFEST_YAML)
      await writeDocument(marked(manifestTexts(namespace, name, {yaml, signal})), onBegin)
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

/** Marks a text that ends too early. JSON needs no mark: it lacks its last bracket. */
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
