type Pattern = {readonly [key: string]: Pattern | readonly Rule[]}
type Rule = string | null | {readonly prefix: string} | {readonly exists: boolean}

/** Whether a record matches one of the patterns of an event source mapping, by the rules of Lambda's event filtering. */
export function passes(patterns: readonly string[], record: object): boolean {
  return patterns.some(pattern => matches(JSON.parse(pattern), record))
}

function matches(pattern: Pattern, value: unknown): boolean {
  return Object.entries(pattern).every(([key, expected]) => {
    const found = (value as Record<string, unknown> | undefined)?.[key]
    if (Array.isArray(expected)) return (expected as Rule[]).some(rule => follows(rule, found))
    return typeof found === 'object' && found !== null && matches(expected as Pattern, found)
  })
}

function follows(rule: Rule, value: unknown): boolean {
  if (typeof rule !== 'object' || rule === null) return value === rule
  if ('prefix' in rule) return typeof value === 'string' && value.startsWith(rule.prefix)
  if ('exists' in rule) return (value !== undefined) === rule.exists
  throw new Error(`this evaluator does not know ${JSON.stringify(rule)}`)
}
