import {parseTemplate, type TemplateNode} from '../../files/template-yaml.js'
import {loadStackTemplate} from '../stack/template.js'
import {loadResourceHandlers, type ResourceHandlers} from './resource-handlers.js'

export interface PermissionFacts {
  readonly template: TemplateNode
  readonly handlers: ResourceHandlers
}

export async function loadPermissionFacts(): Promise<PermissionFacts> {
  const [text, handlers] = await Promise.all([loadStackTemplate(), loadResourceHandlers()])
  return {template: parseTemplate(text), handlers}
}
