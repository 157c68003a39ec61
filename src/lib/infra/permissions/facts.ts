import {parseTemplate, type TemplateNode} from '../../files/template-yaml.js'
import {loadStackTemplate} from '../stack/template.js'
import {loadResourceHandlers, type ResourceHandlers} from './resource-handlers.js'

/** What permissions are derived from. */
export interface PermissionFacts {
  /** The parsed template. */
  readonly template: TemplateNode
  readonly handlers: ResourceHandlers
}

/** The facts in this package. */
export async function loadPermissionFacts(): Promise<PermissionFacts> {
  const [text, handlers] = await Promise.all([loadStackTemplate(), loadResourceHandlers()])
  return {template: parseTemplate(text), handlers}
}
