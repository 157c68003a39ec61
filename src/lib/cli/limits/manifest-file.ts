import {readFile} from 'node:fs/promises'
import {text as wholeText} from 'node:stream/consumers'
import {string} from '@oclif/core/flags'
import {ZaelError} from '../../core/errors.js'
import type {Manifest} from '../../manifest/manifest.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {StackContext} from '../base/context.js'
import type {Settings} from '../base/settings.js'
import type {LimitsExportResult} from '../results/manifest.js'

/** The flag of every command that reads a manifest. */
export const manifestFlags = {
  file: string({
    char: 'f',
    description: 'Manifest file in YAML or JSON; - reads standard input.',
    helpValue: 'FILE',
    required: true,
  }),
}

/** Reads and checks a manifest. */
export async function readManifest(file: string): Promise<Manifest> {
  const {parseManifest} = await import('../../manifest/parse.js')
  const content = file === '-' ? await wholeText(process.stdin) : await readFile(file, 'utf8').catch(unreadable(file))
  return parseManifest(content, {file})
}

/** A manifest and its namespace; a typed `--namespace` must be the same one. */
export async function openManifest(
  file: string,
  {repository}: StackContext,
  {namespace: {source, value}}: Settings,
): Promise<{manifest: Manifest; namespace: NamespaceRepository}> {
  const manifest = await readManifest(file)
  const {openManifestNamespace} = await import('../../manifest/manifest.js')
  const asked = source === 'flag' ? value : undefined
  return {manifest, namespace: await openManifestNamespace(repository, manifest, asked)}
}

/** The configuration of a namespace as a manifest, as text and as JSON. */
export async function writeManifest(
  namespace: NamespaceRepository,
  name: string,
): Promise<{text: string; document: LimitsExportResult}> {
  const [{exportManifest}, {parse}, {safeYaml}] = await Promise.all([
    import('../../manifest/export.js'),
    import('yaml'),
    import('../output/yaml-text.js'),
  ])
  const text = safeYaml(await exportManifest(namespace, name))
  return {text, document: parse(text)}
}

function unreadable(file: string): (error: NodeJS.ErrnoException) => never {
  return error => {
    const isMissing = error.code === 'ENOENT'
    throw new ZaelError(
      isMissing ? 'notFound' : 'failed',
      'manifest.file',
      isMissing ? `there is no file ${file}` : `cannot read ${file}: ${error.message}`,
      {hint: 'To create a manifest from the current limits: zael limits export > limits.yaml', details: {file}},
    )
  }
}
