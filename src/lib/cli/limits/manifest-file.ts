import {string} from '@oclif/core/flags'
import {ZaelError} from '../../core/errors.js'
import type {Manifest} from '../../manifest/manifest.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {StackContext} from '../base/context.js'
import type {Settings} from '../base/settings.js'
import {keepHeapSmall} from '../output/small-heap.js'

/** The flag of every command that reads a manifest. */
export const manifestFlags = {
  file: string({
    char: 'f',
    description: 'Manifest file in YAML or JSON; - reads standard input.',
    helpValue: 'FILE',
    required: true,
  }),
}

/** Several times what the record of a provisioner can list; see docs/manifest.md. */
const MAX_BYTES = 16 * 2 ** 20

/** Reads and checks a manifest. */
export async function readManifest(file: string): Promise<Manifest> {
  const code = 'manifest.file'
  const hint = 'To create a manifest from the current limits: zael limits export > limits.yaml'
  const [{readText}, {parseManifest}] = await Promise.all([
    import('../../documents/read.js'),
    import('../../manifest/parse.js'),
  ])
  keepHeapSmall()
  const text = await readText({file, code, maxBytes: MAX_BYTES, hint})
  if (text === undefined) throw new ZaelError('notFound', code, `there is no file ${file}`, {hint, details: {file}})
  return parseManifest(text, {file})
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
