import {readFile} from 'node:fs/promises'
import {packageFile} from '../../files/package-file.js'
import {parseTemplate, type TemplateNode} from '../../files/template-yaml.js'
import {loadStackTemplate} from '../stack/template.js'
import {type PolicyGrant, passedTo} from './policy.js'
import {isSuperfluous} from './property-actions.js'
import {StackArns, type UnnamedResources} from './resource-arns.js'
import {type StackPlace, type TemplateResource, templateResources} from './template-resources.js'

export interface StackDescription {
  readonly place: StackPlace
  /** The parameters of the template that differ from their defaults. */
  readonly parameters: Readonly<Record<string, string>>
  readonly unnamed: UnnamedResources
}

export interface ResourceGrants {
  readonly resource: TemplateResource
  readonly grants: readonly PolicyGrant[]
}

/**
 * All actions that CloudFormation needs to create, read, update, tag, list and delete the resources of a stack. It makes
 * these calls with the permissions of its caller or of its service role.
 */
export function cloudFormationGrants(
  template: TemplateNode,
  facts: ResourceHandlers,
  {place, parameters, unnamed}: StackDescription,
): ResourceGrants[] {
  const resources = templateResources(template, parameters, place)
  const arns = new StackArns(place, resources, parameters, unnamed)
  return resources.map(resource => {
    const grants = resourceActions(facts, resource).map(action => grantOf(facts, resource, arns, action))
    return {resource, grants: grants.filter(({resources}) => resources.length > 0)}
  })
}

/** The actions of all handlers of a resource, without those for properties that the template does not use. */
function resourceActions({handlers, resourceKinds}: ResourceHandlers, {type, paths}: TemplateResource): string[] {
  const named = handlers[type]
  if (!named) throw new Error(`the handlers of ${type} are not known: run "node .ci/resource-handlers.js"`)
  const actions = [...new Set(Object.values(named).flat())].sort()
  return actions.filter(action => action in resourceKinds && !isSuperfluous(type, action, paths))
}

function grantOf(facts: ResourceHandlers, resource: TemplateResource, arns: StackArns, action: string): PolicyGrant {
  const kinds = facts.resourceKinds[action] ?? []
  // Keys are listed only where the key is the user's own.
  if (action.startsWith('kms:') && arns.keys.length === 0) return {actions: [action], resources: []}
  if (kinds.length === 0) return {actions: [action], resources: ['*']}
  const own = arns.of(resource)
  const resources = kinds.flatMap(kind => own[kind] ?? [])
  if (resources.length === 0)
    throw new Error(`${resource.type} does not tell which ${kinds.join(' or ')} ${action} is for`)
  return {actions: [action], resources, ...(action === 'iam:PassRole' ? {conditions: passedTo('lambda')} : {})}
}

/** What CloudFormation does with a resource; `tag`: it copies the tags of the stack to the resource. */
export type HandlerName = 'create' | 'read' | 'update' | 'delete' | 'list' | 'tag'

/** Facts about the resource types of the template, from CloudFormation's registry and IAM's reference. */
export interface ResourceHandlers {
  readonly handlers: Readonly<Record<string, Readonly<Record<HandlerName, readonly string[]>>>>
  /**
   * Kinds of resources that a policy can restrict an action to, such as `table`; none: only `*` is possible. Names in
   * `handlers` that IAM does not know are missing here.
   */
  readonly resourceKinds: Readonly<Record<string, readonly string[]>>
}

/** The facts in this package; `node .ci/resource-handlers.js` writes the file. */
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
