import {isMap, isScalar, type Node} from 'yaml'
import type {Limit} from '../core/limit.js'
import {checkNamespaceName, checkResourceName} from '../core/names.js'
import type {OnUnavailable} from '../schema/config-record.js'
import type {Manifest, ManifestSystem} from './manifest.js'
import {parseEntities, parseScopeLimits} from './parse-entities.js'
import {checkedName, parseManifestLimits} from './parse-limits.js'
import {manifestInvalid, notOneOf} from './problems.js'
import {ManifestSource} from './source.js'

const SECTIONS = ['namespace', 'system', 'resources', 'entities'] as const
const POLICIES = ['allow', 'block'] as const

/** Parses a manifest in YAML or JSON; throws one error with all problems and their positions. `file` is for messages. */
export function parseManifest(text: string, {file}: {readonly file: string}): Manifest {
  const source = new ManifestSource(text)
  const manifest = source.root && parseRoot(source, source.root)
  if (!manifest || source.problems.length > 0) throw manifestInvalid(file, source.problems)
  return manifest
}

function parseRoot(source: ManifestSource, root: Node): Manifest | undefined {
  const isEmpty = isScalar(root) && root.value === null
  if (isEmpty) {
    source.report(root, '', 'the file is empty; it needs at least "namespace"')
    return undefined
  }
  const sections = source.fields(root, '', 'a manifest', SECTIONS)
  if (!isMap(root)) return undefined
  const [namespace, system, resources, entities] = SECTIONS.map(section => sections.get(section))
  if (!namespace) source.report(root, '', 'the key "namespace" is missing; it names the namespace of this file')
  return {
    namespace: (namespace && parseNamespace(source, namespace)) ?? '',
    system: system && parseSystem(source, system),
    resources: resources ? parseResources(source, resources) : new Map(),
    entities: entities ? parseEntities(source, entities) : new Map(),
  }
}

function parseNamespace(source: ManifestSource, node: Node): string | undefined {
  const name = source.text(node, 'namespace', 'must be a name')
  return name === undefined ? undefined : checkedName(source, node, 'namespace', name, checkNamespaceName)
}

function parseSystem(source: ManifestSource, node: Node): ManifestSystem {
  const known = source.problems.length
  const fields = source.fields(node, 'system', 'the system section', ['on_unavailable', 'limits'])
  const policy = fields.get('on_unavailable')
  const limits = fields.get('limits')
  const onUnavailable = policy && parsePolicy(source, policy)
  const isPolicyOnly = onUnavailable !== undefined && limits !== undefined && isEmptyMap(source, limits)
  const parsed = limits && !isPolicyOnly ? parseManifestLimits(source, limits, 'system.limits') : undefined
  if (!policy && !limits && source.problems.length === known) {
    source.report(node, 'system', 'the section is empty; add "limits" or "on_unavailable", or leave the section out')
  }
  return {limits: parsed ?? [], onUnavailable}
}

/** Files of the Python system may state a policy with empty limits. */
function isEmptyMap(source: ManifestSource, node: Node): boolean {
  const target = source.resolve(node)
  return isMap(target) && target.items.length === 0
}

function parsePolicy(source: ManifestSource, node: Node): OnUnavailable | undefined {
  const text = source.text(node, 'system.on_unavailable', 'must be allow or block')
  const policy = POLICIES.find(each => each === text)
  if (text !== undefined && !policy) {
    source.report(node, 'system.on_unavailable', notOneOf('a policy', text, POLICIES))
  }
  return policy
}

function parseResources(source: ManifestSource, node: Node): Map<string, readonly Limit[]> {
  const resources = new Map<string, readonly Limit[]>()
  for (const {name, key, value} of source.entries(node, 'resources', 'resources')) {
    if (checkedName(source, key, 'resources', name, checkResourceName) === undefined) continue
    const limits = parseScopeLimits(source, value, `resources.${name}`)
    if (limits) resources.set(name, limits)
  }
  return resources
}
