import {describe, expect, it} from 'vitest'
import type {SourceFile} from './helpers/import-lines.js'
import {readSources, type SyntaxNode, syntaxNodes} from './helpers/sources.js'

/** Files that republish exports of the rooms under the same names. */
const PUBLIC = [
  'src/lib/index.ts',
  'src/lib/adapters/otel/index.ts',
  'src/lib/local/testing/index.ts',
  ...['ai-sdk', 'express', 'fastify', 'fetch', 'hono', 'prices'].map(name => `src/lib/adapters/${name}.ts`),
]

/** Every name that several files of the library export, with the files. A name that is passed on counts as well. */
function sharedNames(files: readonly SourceFile[]): string[] {
  const exporters = new Map<string, Set<string>>()
  for (const file of files) {
    if (!file.path.startsWith('src/lib/') || PUBLIC.includes(file.path)) continue
    for (const {node} of syntaxNodes(file)) {
      for (const name of exportedNames(node)) exporters.set(name, (exporters.get(name) ?? new Set()).add(file.path))
    }
  }
  return [...exporters]
    .filter(([, paths]) => paths.size > 1)
    .map(([name, paths]) => `${name}: ${[...paths].join(', ')}`)
    .sort()
}

function exportedNames(node: SyntaxNode): string[] {
  if (node.type === 'ExportAllDeclaration') return node.exported ? [node.exported.name] : []
  if (node.type !== 'ExportNamedDeclaration') return []
  const listed = node.specifiers.map(({exported}: SyntaxNode) => exported.name ?? exported.value)
  const {declaration} = node
  if (!declaration) return listed
  return declaration.type === 'VariableDeclaration'
    ? declaration.declarations.flatMap(({id}: SyntaxNode) => boundNames(id))
    : [declaration.id.name]
}

/** The names that a declaration binds, also by destructuring. */
function boundNames(pattern: SyntaxNode): string[] {
  if (pattern.type === 'Identifier') return [pattern.name]
  if (pattern.type === 'AssignmentPattern') return boundNames(pattern.left)
  const parts: SyntaxNode[] = pattern.properties ?? pattern.elements ?? []
  return parts.filter(Boolean).flatMap(part => boundNames(part.value ?? part.argument ?? part))
}

describe('exported names of the library', () => {
  it('are unique', () => {
    expect(sharedNames(readSources())).toEqual([])
  })
})

describe('the search', () => {
  const file = (path: string, text: string): SourceFile => ({path, text})
  const CLASS = file('src/lib/core/a.ts', 'export class Finding {}')

  it.each([
    ['a class', 'export abstract class Finding {}'],
    ['a function', 'export async function* Finding() {}'],
    ['a constant', 'export const other = 1, Finding = 2'],
    ['a destructured constant', 'export const {a: {b: [Finding]}} = x'],
    ['an interface', 'export interface Finding {}'],
    ['a type', 'export type Finding = string'],
    ['an enum', 'export enum Finding {A}'],
    ['a list', 'const a = 1; export {a as Finding}'],
    ['a list of types', `export type {Finding} from './x.js'`],
    ['a namespace', `export * as Finding from './x.js'`],
  ])('finds %s that another file also exports', (_, text) => {
    const files = [CLASS, file('src/lib/infra/health/b.ts', text)]
    expect(sharedNames(files)).toEqual(['Finding: src/lib/core/a.ts, src/lib/infra/health/b.ts'])
  })

  it.each([
    ['is not exported', 'src/lib/infra/b.ts', 'class Finding {}\nexport const other = 1'],
    ['is a property', 'src/lib/infra/b.ts', 'export const other = {Finding: 1}; export const {Finding: mine} = x'],
    ['is in a comment', 'src/lib/infra/b.ts', '// export class Finding {}'],
    ['is published', 'src/lib/index.ts', `export {Finding} from './core/a.js'`],
    ['is in a command', 'src/commands/finding.ts', 'export default class Finding {}\nexport const Finding = 1'],
    ['is overloaded in one file', 'src/lib/core/a.ts', 'export function Finding(): void\nexport function Finding() {}'],
  ])('accepts a name that %s', (_, path, text) => {
    expect(sharedNames([CLASS, file(path, text)])).toEqual([])
  })
})
