import {string} from '@oclif/core/flags'
import {InvalidInput, ZaelError} from '../../core/errors.js'
import type {Manifest} from '../../manifest/manifest.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {StackContext} from '../base/context.js'
import type {Settings} from '../base/settings.js'
import {keepHeapSmallest} from '../output/long-list.js'

export const manifestFlags = {
  file: string({
    char: 'f',
    description: 'Manifest file in YAML or JSON; - reads standard input.',
    helpValue: 'FILE',
    required: true,
  }),
}

/** About 300,000 entities. */
const MAX_BYTES = 64 * 2 ** 20

/** For files that are parsed as a whole, which takes 100 times their size in memory. */
const MAX_WHOLE_BYTES = 16 * 2 ** 20

export async function readManifest(file: string): Promise<Manifest> {
  const code = 'manifest.file'
  const hint = 'To create a manifest from the current limits: zael limits export > limits.yaml'
  const [{formatSize, readPieces}, {NotInBlocks, parseManifestBlocks}, {parseManifest}] = await Promise.all([
    import('../../files/read-document.js'),
    import('../../manifest/parse.js'),
    import('../../manifest/parse.js'),
  ])
  keepHeapSmallest()
  const read = await readPieces({file, code, maxBytes: MAX_BYTES, hint})
  if (!read) throw new ZaelError('notFound', code, `there is no file ${file}`, {hint, details: {file}})
  try {
    return parseManifestBlocks(read.pieces, {file})
  } catch (error) {
    if (!(error instanceof NotInBlocks)) throw error
    if (read.bytes <= MAX_WHOLE_BYTES) return parseManifest(read.text(), {file})
    throw new InvalidInput(code, `cannot read ${file}: it is larger than ${formatSize(MAX_WHOLE_BYTES)}`, {
      hint: `A larger file needs the form that \`zael limits export\` writes; line ${error.line} has another.`,
      details: {file, line: error.line},
    })
  }
}

/** A typed `--namespace` must be the one in the manifest. */
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
