import {InvalidInput} from '../core/errors.js'
import type {NamespaceRepository, Repository} from '../repository/repository.js'
import type {Manifest} from './manifest.js'

/** The namespace that a manifest is for; one that was asked for besides must be the same (M-8). */
export async function openManifestNamespace(
  repository: Repository,
  manifest: Manifest,
  asked?: string,
): Promise<NamespaceRepository> {
  const {namespace} = manifest
  if (asked !== undefined && asked !== namespace) {
    throw new InvalidInput('manifest.namespace', `The manifest is for namespace "${namespace}", not for "${asked}".`, {
      hint: 'Leave out --namespace, or change `namespace:` in the file.',
      details: {namespace, asked},
    })
  }
  return repository.namespace(namespace)
}
