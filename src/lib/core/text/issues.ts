/** A problem that a schema found: the way to the value, and what is wrong with it. Messages never repeat the value. */
export interface SchemaIssue {
  readonly path: readonly PropertyKey[]
  readonly message: string
}

/** All problems in one line: `shards.a: expected text; port: expected a number`. */
export function describeIssues(issues: readonly SchemaIssue[]): string {
  return issues.map(({path, message}) => (path.length === 0 ? message : `${path.join('.')}: ${message}`)).join('; ')
}
