import {readFile} from 'node:fs/promises'
import {packageFile} from '../../files/package-file.js'
import {parseTemplate, type TemplateNode} from '../../files/template-yaml.js'
import {loadStackTemplate} from '../stack/template.js'

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
