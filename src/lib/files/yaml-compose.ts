import {Composer, type Document, LineCounter, Parser} from 'yaml'

type Token = ReturnType<Parser['parse']> extends Iterable<infer T> ? T : never

/** A text as YAML nodes, or the first error that makes it none. Offsets are in characters. */
export interface Composed {
  readonly document: Document.Parsed | undefined
  readonly errors: ReadonlyArray<{readonly offset: number; readonly code: string; readonly message: string}>
  /** Line and column of an offset, both from 1. */
  position(offset: number): {line: number; column: number}
}

// DynamoDB allows 32 levels of metadata. The composer recurses: many thousand levels would end the process.
const MAX_DEPTH = 64

/** Like yaml's `parseDocument`, but a text that is nested too deeply is an error. JSON is a subset of YAML. */
export function composeYaml(text: string): Composed {
  const lines = new LineCounter()
  const tokens = [...new Parser(lines.addNewLine).parse(text)]
  const position = (offset: number) => {
    const {line, col} = lines.linePos(offset)
    return {line: Math.max(1, line), column: Math.max(1, col)}
  }
  const tooDeep = firstDeeperThan(MAX_DEPTH, tokens)
  if (tooDeep !== undefined) {
    const message = `this is nested more than ${MAX_DEPTH} levels deep`
    return {document: undefined, errors: [{offset: tooDeep, code: 'DEPTH', message}], position}
  }
  // Duplicate keys are found by the callers: yaml compares every key with every other.
  const options = {prettyErrors: false, uniqueKeys: false} as const
  const [document, second] = new Composer(options).compose(tokens, true, text.length)
  const errors = [...(document?.errors ?? []), ...(document?.warnings ?? [])].map(({pos, code, message}) => {
    return {offset: pos[0], code: code as string, message}
  })
  if (second) errors.push({offset: second.range[0], code: 'MULTIPLE_DOCS', message: 'a second document begins here'})
  return {document: document as Document.Parsed | undefined, errors, position}
}

/** Offset of a token below that many levels, found without recursion. */
function firstDeeperThan(levels: number, tokens: readonly Token[]): number | undefined {
  let level: readonly Token[] = tokens
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > levels) return (level[0] as {offset: number}).offset
    level = level.flatMap(childrenOf)
  }
  return undefined
}

function childrenOf(token: Token): Token[] {
  const children: unknown[] = 'value' in token ? [token.value] : []
  if ('items' in token) for (const {key, value} of token.items) children.push(key, value)
  return children.filter(child => typeof child === 'object' && child !== null) as Token[]
}
