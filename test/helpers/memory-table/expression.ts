/** A place in an item: names, or placeholders for them, and positions in lists. */
export type Path = readonly (string | number)[]

export type Operand =
  | {readonly kind: 'path'; readonly path: Path}
  | {readonly kind: 'value'; readonly placeholder: string}
  | {readonly kind: 'size'; readonly of: Operand}

export type Condition =
  | {readonly kind: 'and' | 'or'; readonly terms: readonly Condition[]}
  | {readonly kind: 'not'; readonly term: Condition}
  | {readonly kind: 'compare'; readonly operator: string; readonly left: Operand; readonly right: Operand}
  | {readonly kind: 'between'; readonly operand: Operand; readonly low: Operand; readonly high: Operand}
  | {readonly kind: 'in'; readonly operand: Operand; readonly list: readonly Operand[]}
  | {readonly kind: 'function'; readonly name: string; readonly args: readonly Operand[]}

/** Right sides of SET. */
export type Assigned =
  | Operand
  | {readonly kind: 'if_not_exists'; readonly path: Path; readonly otherwise: Assigned}
  | {readonly kind: 'list_append'; readonly left: Assigned; readonly right: Assigned}
  | {readonly kind: '+' | '-'; readonly left: Assigned; readonly right: Assigned}

export interface Update {
  readonly set: readonly {readonly path: Path; readonly value: Assigned}[]
  readonly remove: readonly Path[]
  readonly add: readonly {readonly path: Path; readonly value: Operand}[]
  readonly delete: readonly {readonly path: Path; readonly value: Operand}[]
}

/** A parsed expression and its placeholders. */
export interface Parsed<T> {
  readonly root: T
  readonly placeholders: ReadonlySet<string>
}
