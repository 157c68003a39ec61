import {openStack, type StackContext} from '../base/context.js'
import {findSettings} from '../base/settings.js'
import type {NameKind, TypedFlags} from './candidates.js'

/** A person waits with a finger on the key. */
const PATIENCE_MS = 1_500
const MOST_NAMES = 200

/** Names of that kind in the chosen stack; none where they cannot be had in a moment. */
export async function lookUpNames(of: NameKind, typed: TypedFlags, configDir: string): Promise<string[]> {
  const late = new Promise<string[]>(resolve => setTimeout(resolve, PATIENCE_MS, []).unref())
  return Promise.race([read(of, typed, configDir).catch(() => []), late])
}

async function read(of: NameKind, typed: TypedFlags, configDir: string): Promise<string[]> {
  const {settings} = await findSettings({flags: typed, env: process.env, folder: process.cwd(), configDir})
  await using stack = await openStack({
    stack: settings.stack.value ?? '',
    namespace: settings.namespace.value ?? '',
    region: settings.region.value,
    profile: settings.profile.value,
    'endpoint-url': settings.endpointUrl.value,
  })
  return (await namesIn(stack, of)).slice(0, MOST_NAMES)
}

async function namesIn(stack: StackContext, of: NameKind): Promise<string[]> {
  if (of === 'namespace') return (await stack.repository.namespaces.list()).map(({name}) => name)
  const namespace = await stack.namespace()
  if (of === 'entity') return (await namespace.entities.list({limit: MOST_NAMES})).records.map(({entity}) => entity)
  const resources = await namespace.configs.resources()
  return resources.flatMap(({scope}) => (scope.level === 'resource' ? [scope.resource] : []))
}
