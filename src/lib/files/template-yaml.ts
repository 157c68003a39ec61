import {
  type CollectionTag,
  isCollection,
  isSeq,
  type Node,
  Pair,
  parseDocument,
  Scalar,
  type ScalarTag,
  visit,
  YAMLMap,
} from 'yaml'

// biome-ignore lint/suspicious/noExplicitAny: a template node can be anything
export type TemplateNode = any

/** Reads short forms of CloudFormation functions as their long forms. */
export function parseTemplate(text: string): TemplateNode {
  return parseDocument(text, {customTags: SHORT_FORMS}).toJS()
}

// Write collections inside resource properties on one line, to save indentation.
const FLOW_DEPTH = 5

/** Quoting a long text on one line would take more bytes than its indentation. */
function hasBlockText(node: Node): boolean {
  let isFound = false
  visit(node, {
    Scalar(_, {type}) {
      isFound ||= type === Scalar.BLOCK_LITERAL || type === Scalar.BLOCK_FOLDED
    },
  })
  return isFound
}

/** CloudFormation accepts at most 51,200 bytes inline. Keeps short forms of functions. */
export function compactTemplate(text: string): string {
  const document = parseDocument(text, {logLevel: 'silent'})
  document.commentBefore = null
  visit(document, {
    Node(_, node, path) {
      node.comment = null
      node.commentBefore = null
      node.spaceBefore = false
      const depth = path.filter(isCollection).length
      if (isCollection(node) && depth >= FLOW_DEPTH && !hasBlockText(node)) node.flow = true
    },
  })
  return document.toString({indent: 1, indentSeq: false, lineWidth: 0, flowCollectionPadding: false})
}

/** Removes items `!If [Condition, item, !Ref AWS::NoValue]`, for emulators that leave an empty item. */
export function withoutItemsOf(condition: string, text: string): string {
  const document = parseDocument(text, {logLevel: 'silent'})
  visit(document, {
    Seq(_, node, path) {
      const parent = path.at(-1)
      const isChoice = node.tag === '!If' && (node.items[0] as Scalar).value === condition && node.items.length === 3
      return isChoice && isSeq(parent) && parent.tag !== '!If' ? visit.REMOVE : undefined
    },
  })
  return document.toString({lineWidth: 0})
}

const SHORT_FORMS: Array<ScalarTag | CollectionTag> = [
  ...['Ref', 'GetAtt', 'Sub'].map(ofText),
  ...['And', 'Equals', 'If', 'Not', 'Or', 'Select', 'Split', 'Sub'].map(ofList),
]

function ofText(name: string): ScalarTag {
  return {tag: `!${name}`, resolve: (value: string) => ({[longForm(name)]: value})}
}

function ofList(name: string): CollectionTag {
  return {
    tag: `!${name}`,
    collection: 'seq',
    resolve(list) {
      const map = new YAMLMap()
      map.add(new Pair(new Scalar(longForm(name)), list))
      return map
    },
  }
}

function longForm(name: string): string {
  return name === 'Ref' ? name : `Fn::${name}`
}
