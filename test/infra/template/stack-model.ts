import {readFileSync} from 'node:fs'
import {parseTemplate, type TemplateNode} from '../../../src/lib/files/template-yaml.js'

export const TEMPLATE_TEXT = readFileSync(new URL('../../../templates/stack.yaml', import.meta.url), 'utf8')

/** The text of the template. */
export const TEMPLATE: TemplateNode = parseTemplate(TEMPLATE_TEXT)

/** Pseudo parameters of CloudFormation. */
const PSEUDO: Readonly<Record<string, string>> = {
  'AWS::StackName': 'prod',
  'AWS::Region': 'eu-west-1',
  'AWS::AccountId': '123456789012',
  'AWS::Partition': 'aws',
}

const ABSENT = Symbol('AWS::NoValue')

/** Evaluates a template with the given parameters as CloudFormation does: resources and outputs, all resolved. */
export function stackWith(
  given: Readonly<Record<string, string>> = {},
  pseudo: Readonly<Record<string, string>> = {},
  template: TemplateNode = TEMPLATE,
) {
  const names: Record<string, string> = {...PSEUDO, ...pseudo}
  for (const [name, {Default}] of Object.entries<TemplateNode>(template.Parameters)) names[name] = String(Default)
  Object.assign(names, given)

  const isMet = (name: string): boolean => resolve(template.Conditions[name]) === true
  const exists = ({Condition}: TemplateNode) => Condition === undefined || isMet(Condition)
  const kept = (part: Record<string, TemplateNode>) =>
    Object.fromEntries(
      Object.entries(part).flatMap(([name, {Condition: _, ...rest}]) =>
        exists(part[name]) ? [[name, resolve(rest)]] : [],
      ),
    )
  return {
    Resources: kept(template.Resources) as Record<string, TemplateNode>,
    Outputs: kept(template.Outputs) as Record<string, TemplateNode>,
    brokenRules: Object.entries<TemplateNode>(template.Rules)
      .filter(([, {RuleCondition, Assertions}]) => {
        return resolve(RuleCondition) && Assertions.some(({Assert}: TemplateNode) => resolve(Assert) === false)
      })
      .map(([name]) => name),
  }

  function resolve(node: TemplateNode): TemplateNode {
    if (Array.isArray(node)) return node.map(resolve).filter(each => each !== ABSENT)
    if (typeof node !== 'object' || node === null) return node
    const [[key, value] = ['', undefined]] = Object.entries<TemplateNode>(node)
    switch (key) {
      case 'Ref':
        return value === 'AWS::NoValue' ? ABSENT : referred(value)
      case 'Condition':
        if (Object.keys(node).length === 1 && typeof value === 'string') return isMet(value)
        break
      case 'Fn::GetAtt':
        return attributeOf(value)
      case 'Fn::If':
        return resolve(isMet(value[0]) ? value[1] : value[2])
      case 'Fn::Equals':
        return resolve(value[0]) === resolve(value[1])
      case 'Fn::Not':
        return !resolve(value[0])
      case 'Fn::And':
        return value.every(resolve)
      case 'Fn::Or':
        return value.some(resolve)
      case 'Fn::Split':
        return resolve(value[1]).split(value[0])
      case 'Fn::Select':
        return resolve(value[1])[value[0]]
      case 'Fn::Sub':
        return typeof value === 'string' ? substituted(value, {}) : substituted(value[0], resolve(value[1]))
    }
    return Object.fromEntries(
      Object.entries(node)
        .map(([name, each]) => [name, resolve(each)])
        .filter(([, each]) => each !== ABSENT),
    )
  }

  function substituted(text: string, own: Readonly<Record<string, string>>): string {
    return text.replaceAll(/\$\{([^}]+)\}/g, (_, name: string) => {
      return own[name] ?? (name.includes('.') ? attributeOf(name) : referred(name))
    })
  }

  /** The value of a parameter, or the Ref of a resource. */
  function referred(name: string): string {
    if (names[name] !== undefined) return names[name]
    needs(name)
    return name === 'Table' ? tableName() : `ref:${name}`
  }

  function tableName(): string {
    return resolve(template.Resources.Table.Properties.TableName)
  }

  function attributeOf(path: string): string {
    const [name = '', attribute] = path.split('.')
    needs(name)
    const {'AWS::Partition': partition, 'AWS::Region': region, 'AWS::AccountId': account} = names
    const table = `arn:${partition}:dynamodb:${region}:${account}:table/${tableName()}`
    if (name === 'Table') return attribute === 'Arn' ? table : `${table}/stream/2026-01-01T00:00:00.000`
    return `${attribute === 'Arn' ? 'arn' : attribute}:${name}`
  }

  /** A created resource must not refer to one whose condition is false. */
  function needs(name: string): void {
    const resource = template.Resources[name]
    if (!resource || !exists(resource)) throw new Error(`${name} is referred to and does not exist`)
  }
}
