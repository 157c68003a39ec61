import {parseTemplate, type TemplateNode} from '../../../src/lib/files/template-yaml.js'
import {stackWith} from '../template/stack-model.js'
import type {Properties} from './account.js'
import {nameProperty} from './resource-names.js'

/** A resource that a template asks for, with everything resolved. */
export interface WantedResource {
  readonly logicalId: string
  readonly type: string
  readonly properties: Properties
  /** The name that the template gives it; `null`: AWS generates one. */
  readonly name: string | null
  /** The name is written in the template itself, not made by a function. */
  readonly hasStaticName: boolean
  readonly isRetained: boolean
}

export interface ResolvedTemplate {
  readonly resources: readonly WantedResource[]
  readonly outputs: Readonly<Record<string, string>>
  readonly parameters: Readonly<Record<string, string>>
}

const parsed = new Map<string, TemplateNode>()

/** Parsing takes longer than everything else here. */
function parseOnce(text: string): TemplateNode {
  const template = parsed.get(text) ?? parseTemplate(text)
  parsed.set(text, template)
  return template
}

/** Evaluates a template: parameters, conditions, functions. References to other resources stay symbols, such as `ref:Queue`. */
export function resolveTemplate(
  text: string,
  given: Readonly<Record<string, string>>,
  place: {readonly stack: string; readonly region: string},
): ResolvedTemplate {
  const template = parseOnce(text)
  const pseudo = {'AWS::StackName': place.stack, 'AWS::Region': place.region}
  const {Resources, Outputs} = stackWith(given, pseudo, template)
  const defaults = Object.entries<TemplateNode>(template.Parameters).map(([name, {Default}]) => [name, String(Default)])
  return {
    parameters: {...Object.fromEntries(defaults), ...given},
    outputs: Object.fromEntries(Object.entries(Outputs).map(([name, {Value}]) => [name, String(Value)])),
    resources: Object.entries(Resources).map(
      ([logicalId, {Type: type, Properties: properties = {}, DeletionPolicy}]) => {
        const property = nameProperty(type)
        const written = property && template.Resources[logicalId].Properties[property]
        return {
          logicalId,
          type,
          properties,
          name: (property && properties[property]) ?? null,
          hasStaticName: typeof written === 'string',
          isRetained: DeletionPolicy === 'Retain',
        }
      },
    ),
  }
}
