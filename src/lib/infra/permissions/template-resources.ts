import type {TemplateNode} from '../../files/template-yaml.js'

export interface StackPlace {
  readonly partition: string
  readonly region: string
  readonly account: string
  readonly stack: string
}

export interface TemplateResource {
  readonly logicalId: string
  readonly type: string
  /** Paths of all properties under any parameters, such as `SSESpecification.KMSMasterKeyId`. */
  readonly paths: ReadonlySet<string>
  text(property: string): string
  /** Logical ids. */
  references(property: string): readonly string[]
}

export function templateResources(
  template: TemplateNode,
  parameters: Readonly<Record<string, string>>,
  {partition, region, account, stack}: StackPlace,
): TemplateResource[] {
  const values: Record<string, string> = {
    'AWS::Partition': partition,
    'AWS::Region': region,
    'AWS::AccountId': account,
    'AWS::StackName': stack,
  }
  for (const [name, {Default}] of Object.entries<TemplateNode>(template.Parameters)) values[name] = String(Default)
  Object.assign(values, parameters)

  const isMet = (condition: string): boolean => evaluate(template.Conditions[condition]) === true
  return Object.entries<TemplateNode>(template.Resources)
    .filter(([, {Condition}]) => Condition === undefined || isMet(Condition))
    .map(([logicalId, {Type, Properties}]) => ({
      logicalId,
      type: Type,
      paths: new Set(pathsOf(Properties, '')),
      text: property => String(evaluate(Properties[property])),
      references: property => [Properties[property]].flat().map(node => node.Ref),
    }))

  function evaluate(node: TemplateNode): TemplateNode {
    if (Array.isArray(node)) return node.map(evaluate)
    if (typeof node !== 'object' || node === null) return node
    const [[name = '', value] = []] = Object.entries<TemplateNode>(node)
    switch (name) {
      case 'Ref':
        return known(value)
      case 'Condition':
        return isMet(value)
      case 'Fn::Equals':
        return evaluate(value[0]) === evaluate(value[1])
      case 'Fn::Not':
        return !evaluate(value[0])
      case 'Fn::And':
        return value.every(evaluate)
      case 'Fn::Or':
        return value.some(evaluate)
      case 'Fn::If':
        return evaluate(isMet(value[0]) ? value[1] : value[2])
      case 'Fn::Select':
        return evaluate(value[1])[value[0]]
      case 'Fn::Split':
        return evaluate(value[1]).split(value[0])
      case 'Fn::Sub':
        return typeof value === 'string' ? filledIn(value, {}) : filledIn(value[0], value[1])
      default:
        throw new Error(`the template uses ${name} in a condition or name`)
    }
  }

  function filledIn(text: string, own: Readonly<Record<string, TemplateNode>>): string {
    return text.replaceAll(/\$\{([^}]+)\}/g, (_, name: string) => (name in own ? evaluate(own[name]) : known(name)))
  }

  function known(name: string): string {
    const value = values[name]
    if (value === undefined) throw new Error(`the template uses ${name} in a condition or name`)
    return value
  }
}

function pathsOf(node: TemplateNode, prefix: string): string[] {
  if (typeof node !== 'object' || node === null || Array.isArray(node)) return []
  return Object.entries<TemplateNode>(node).flatMap(([name, value]) => {
    if (name === 'Fn::If') return [...pathsOf(value[1], prefix), ...pathsOf(value[2], prefix)]
    if (name === 'Ref' || name.startsWith('Fn::')) return []
    return [prefix + name, ...pathsOf(value, `${prefix}${name}.`)]
  })
}
