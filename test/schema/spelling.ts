import * as readers from '../../src/lib/schema/attribute-value.js'
import {attributes, indexes, keyNames} from '../../src/lib/schema/attributes.js'
import {LIMIT_FIELDS, limitAttribute, markAttribute} from '../../src/lib/schema/bucket-record.js'
import {configAttribute, slotsAttribute} from '../../src/lib/schema/config-limits.js'
import {keyParts} from '../../src/lib/schema/keys.js'
import {usageMark} from '../../src/lib/schema/usage-record.js'
import {importLines, type SourceFile} from '../helpers/import-lines.js'
import {type PlacedNode, type SyntaxNode, syntaxNodes} from '../helpers/sources.js'

/*
 * Who spells an attribute name or a key prefix? Names are taken from schema itself. What counts as spelling depends on how
 * likely a word is to mean something else:
 *
 * 1. Key attributes (PK, GSI1SK), index names (GSI1) and parts of keys (ENTITY#, #META) mean nothing else. No literal, no
 *    part of a template and no property may be one, in any file. A literal with spaces is a sentence, not a key, and one with
 *    control characters is binary data.
 * 2. Names with an underscore (shard_count) and what begins like the attribute of a limit or a mark (b_…) are refused in the
 *    same places, in files that handle items. Elsewhere they may be fields of another document, such as a manifest.
 * 3. Names that are words or single letters (status, ttl, rf) are refused only where they are certainly attributes: given
 *    to an ExpressionBuilder or to a reader such as readString, or taken from an Item.
 */

const KEY_ATTRIBUTES = [undefined, ...Object.values(indexes)].flatMap(index => keyNames(index))
const {key: _, ...records} = attributes
const ATTRIBUTES = [...new Set(Object.values(records).flatMap(names => Object.values(names) as string[]))]
const COMPOUND = new Set(ATTRIBUTES.filter(name => name.includes('_')))
const WORDS = new Set(ATTRIBUTES)
const KEY_PARTS = [...new Set(Object.values(keyParts).flatMap(parts => Object.values(parts) as string[]))]

/** Prefixes of attribute names that contain a name or a number. */
const STEMS = [
  ...LIMIT_FIELDS.map(field => limitAttribute('~', field).split('~')[0]),
  ...[configAttribute('~', 'capacity'), slotsAttribute('~')].map(name => name.split('~')[0]),
  ...[markAttribute(0), usageMark(0)].map(name => name.slice(0, -1)),
] as string[]

/** The function of update expressions is no attribute. */
const SET_ONCE = 'if_not_exists('

const STRUCTURE = new RegExp(
  `(?<![A-Za-z0-9])(${[...KEY_ATTRIBUTES, ...Object.values(indexes)].join('|')})(?![A-Za-z0-9])`,
)
const KEY_PART = new RegExp(`(?<![A-Z_])(${KEY_PARTS.toSorted((a, b) => b.length - a.length).join('|')})(?![A-Z_])`)

const NO_KEY = /[\s\p{Cc}]/u

const READERS = new Set(Object.keys(readers).filter(name => name.startsWith('read')))
const BUILDER = 'ExpressionBuilder'
const BUILDER_METHODS = new Set(['name', 'set', 'setIfMissing', 'copy', 'add', 'remove', 'delete', 'project'])

/** Files that import one of these read or write items. */
const ITEM_MODULES = /^src\/lib\/(schema\/(attribute-value|attributes)|dynamo\/(expression|batch|transport))$/

/** Fields of requests and answers that are items. */
const ITEM_FIELDS = new Set(['Item', 'Attributes', 'Keys', 'NewImage', 'OldImage'])

/** The vocabulary, for tests of its completeness. */
export const vocabulary = {KEY_ATTRIBUTES, ATTRIBUTES, KEY_PARTS, STEMS}

/** Every name that a file spells, as `path spells name`. */
export function spelledNames(file: SourceFile): string[] {
  const found = new Set<string>()
  const handlesItems = importLines(file).some(({target}) => ITEM_MODULES.test(target ?? ''))
  const nodes = syntaxNodes(file)
  const builders = variablesOf(nodes, BUILDER)
  const items = variablesOf(nodes, 'Item')
  const report = (name: string | undefined) => name !== undefined && found.add(`${file.path} spells ${name}`)

  for (const {node, parent} of nodes) {
    for (const text of literalTexts(node, parent)) {
      if (NO_KEY.test(text)) continue
      report(STRUCTURE.exec(text)?.[1])
      report(KEY_PART.exec(text)?.[1])
    }
    const name = propertyName(node)
    if (name !== undefined && [...KEY_ATTRIBUTES, ...Object.values(indexes)].includes(name)) report(name)
    if (handlesItems) {
      const [first] = literalTexts(node, parent)
      const isWhole = node.type !== 'TemplateLiteral' || node.expressions.length === 0
      if (first !== undefined && isWhole && COMPOUND.has(first)) report(first)
      if (first !== undefined && !NO_KEY.test(first))
        report(STEMS.find(stem => first.startsWith(stem) && !first.startsWith(SET_ONCE)))
      if (node.type === 'Literal' && node.regex) {
        const pattern = node.regex.pattern.replace(/^\^?\(?/, '')
        report(STEMS.find(stem => pattern.startsWith(stem)))
      }
      if (name !== undefined && COMPOUND.has(name)) report(name)
    }
    for (const word of certainAttributes(node, builders, items)) if (WORDS.has(word)) report(word)
  }
  return [...found]
}

/** The texts of a string literal or template; imported paths do not count. */
function literalTexts(node: SyntaxNode, parent: SyntaxNode | undefined): string[] {
  if (node.type === 'Literal' && typeof node.value === 'string') {
    return parent && /^(Import|Export)|ImportExpression/.test(parent.type) ? [] : [node.value]
  }
  if (node.type === 'TemplateLiteral') return node.quasis.map(({value}: SyntaxNode) => value.cooked ?? '')
  return []
}

/** The name of a property that is read, written, destructured or declared. */
function propertyName(node: SyntaxNode): string | undefined {
  if (node.computed) return undefined
  if (node.type === 'MemberExpression') return node.property.name
  if (['Property', 'TSPropertySignature', 'PropertyDefinition'].includes(node.type)) {
    return node.key.name ?? (typeof node.key.value === 'string' ? node.key.value : undefined)
  }
  return undefined
}

/** Words that can only be attribute names here. */
function certainAttributes(node: SyntaxNode, builders: ReadonlySet<string>, items: ReadonlySet<string>): string[] {
  if (node.type === 'CallExpression') {
    const {callee} = node
    const isReader = callee.type === 'Identifier' && READERS.has(callee.name)
    const isBuilder =
      callee.type === 'MemberExpression' && BUILDER_METHODS.has(callee.property.name) && isMadeBy(callee, builders)
    return isReader || isBuilder ? node.arguments.flatMap(wholeText) : []
  }
  if (node.type === 'MemberExpression' && isItem(node.object, items)) {
    return node.computed ? wholeText(node.property) : [node.property.name]
  }
  if (node.type === 'BinaryExpression' && node.operator === 'in' && isItem(node.right, items))
    return wholeText(node.left)
  const [pattern, value] = node.type === 'VariableDeclarator' ? [node.id, node.init] : []
  const isEncoded = value?.type === 'CallExpression' && /^encode/.test(value.callee.name ?? '')
  const isDestructured = pattern?.type === 'ObjectPattern' && value && (isEncoded || isItem(value, items))
  const isParameter = node.type === 'ObjectPattern' && typeName(node) === 'Item'
  if (!isDestructured && !isParameter) return []
  return (isParameter ? node : pattern).properties.flatMap((each: SyntaxNode) => propertyName(each) ?? [])
}

function wholeText(node: SyntaxNode): string[] {
  if (node.type === 'ArrayExpression')
    return node.elements.flatMap((each: SyntaxNode | null) => (each ? wholeText(each) : []))
  if (node.type === 'TemplateLiteral' && node.expressions.length > 0) return []
  return literalTexts(node, undefined)
}

function isItem(node: SyntaxNode, items: ReadonlySet<string>): boolean {
  if (node.type === 'Identifier') return items.has(node.name)
  if (node.type === 'ChainExpression' || node.type === 'TSNonNullExpression') return isItem(node.expression, items)
  return node.type === 'MemberExpression' && ITEM_FIELDS.has(node.property.name)
}

/** Whether a chain of calls starts at an ExpressionBuilder. */
function isMadeBy(node: SyntaxNode, builders: ReadonlySet<string>): boolean {
  if (node.type === 'MemberExpression') return isMadeBy(node.object, builders)
  if (node.type === 'CallExpression') return isMadeBy(node.callee, builders)
  if (node.type === 'NewExpression') return node.callee.name === BUILDER
  return node.type === 'Identifier' && builders.has(node.name)
}

/** Variables and parameters of a type, by annotation or because they are initialised with `new`. */
function variablesOf(nodes: readonly PlacedNode[], type: string): Set<string> {
  const names = new Set<string>()
  for (const {node} of nodes) {
    if (node.type === 'Identifier' && typeName(node) === type) names.add(node.name)
    const [target, value] =
      node.type === 'VariableDeclarator'
        ? [node.id, node.init]
        : node.type === 'AssignmentPattern'
          ? [node.left, node.right]
          : []
    if (type === BUILDER && target?.type === 'Identifier' && value && isMadeBy(value, new Set())) names.add(target.name)
  }
  return names
}

/** `Item` for `: Item` and for `: Item | undefined`. */
function typeName(node: SyntaxNode): string | undefined {
  const annotation = node.typeAnnotation?.typeAnnotation
  const types: SyntaxNode[] = annotation?.type === 'TSUnionType' ? annotation.types : [annotation].filter(Boolean)
  return types.find(each => each.type === 'TSTypeReference')?.typeName.name
}
