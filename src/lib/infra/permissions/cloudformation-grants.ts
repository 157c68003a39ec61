import {readFile} from 'node:fs/promises'
import {packageFile} from '../../files/package-file.js'
import {parseTemplate, type TemplateNode} from '../../files/template-yaml.js'
import {loadStackTemplate} from '../stack/artifacts.js'
import {type PolicyGrant, passedTo} from './policy.js'
import {isSuperfluous} from './property-actions.js'
import {StackArns, type UnnamedResources} from './resource-arns.js'
import {type StackPlace, type TemplateResource, templateResources} from './template-resources.js'

export interface StackDescription {
  readonly place: StackPlace
  /** Only parameters that differ from the template's defaults. */
  readonly parameters: Readonly<Record<string, string>>
  readonly unnamed: UnnamedResources
}

/** CloudFormation makes these calls with the permissions of its caller or of its service role. */
export function cloudFormationGrants(
  template: TemplateNode,
  facts: ResourceHandlers,
  {place, parameters, unnamed}: StackDescription,
): {readonly resource: TemplateResource; readonly grants: readonly PolicyGrant[]}[] {
  const resources = templateResources(template, parameters, place)
  const arns = new StackArns(place, resources, parameters, unnamed)
  return resources.map(resource => {
    const grants = resourceActions(facts, resource).map(action => grantOf(facts, resource, arns, action))
    return {resource, grants: grants.filter(({resources}) => resources.length > 0)}
  })
}

function resourceActions({handlers, resourceKinds}: ResourceHandlers, {type, paths}: TemplateResource): string[] {
  const named = handlers[type]
  if (!named) throw new Error(`the handlers of ${type} are not known: run "node .ci/resource-handlers.js"`)
  const actions = [...new Set(Object.values(named).flat())].sort()
  return actions.filter(action => action in resourceKinds && !isSuperfluous(type, action, paths))
}

function grantOf(facts: ResourceHandlers, resource: TemplateResource, arns: StackArns, action: string): PolicyGrant {
  const kinds = facts.resourceKinds[action] ?? []
  // Only a customer-managed key needs grants.
  if (action.startsWith('kms:') && arns.keys.length === 0) return {actions: [action], resources: []}
  if (kinds.length === 0) return {actions: [action], resources: ['*']}
  const own = arns.of(resource)
  const resources = kinds.flatMap(kind => own[kind] ?? [])
  if (resources.length === 0)
    throw new Error(`${resource.type} does not tell which ${kinds.join(' or ')} ${action} is for`)
  return {actions: [action], resources, ...(action === 'iam:PassRole' ? {conditions: passedTo('lambda')} : {})}
}

/** `tag`: CloudFormation copies the tags of the stack to the resource. */
export type HandlerName = 'create' | 'read' | 'update' | 'delete' | 'list' | 'tag'

export interface ResourceHandlers {
  readonly handlers: Readonly<Record<string, Readonly<Record<HandlerName, readonly string[]>>>>
  /** Resource kinds that an action can be restricted to, such as `table`; empty: only `*`; missing: unknown to IAM. */
  readonly resourceKinds: Readonly<Record<string, readonly string[]>>
}

/** `node .ci/resource-handlers.js` writes this file. */
async function loadResourceHandlers(): Promise<ResourceHandlers> {
  return JSON.parse(await readFile(packageFile('templates/resource-handlers.json'), 'utf8'))
}

export interface PermissionFacts {
  readonly template: TemplateNode
  readonly handlers: ResourceHandlers
}

export async function loadPermissionFacts(): Promise<PermissionFacts> {
  const [text, handlers] = await Promise.all([loadStackTemplate(), loadResourceHandlers()])
  return {template: parseTemplate(text), handlers}
}
