import {readdirSync, readFileSync} from 'node:fs'
import {fileURLToPath} from 'node:url'
import {parseAst} from 'vitest/node'
import type {SourceFile} from './import-lines.js'

const SRC = new URL('../../src/', import.meta.url)

/** All TypeScript sources of the project. */
export function readSources(): SourceFile[] {
  return readdirSync(fileURLToPath(SRC), {recursive: true, encoding: 'utf8'})
    .map(path => path.replaceAll('\\', '/'))
    .filter(path => /\.tsx?$/.test(path))
    .sort()
    .map(path => ({path: `src/${path}`, text: readFileSync(new URL(path, SRC), 'utf8')}))
}

/** A node of a syntax tree (ESTree with TypeScript); which fields it has depends on its type. */
export interface SyntaxNode {
  readonly type: string
  // biome-ignore lint/suspicious/noExplicitAny: the shape of each type is known where it is used
  readonly [field: string]: any
}

/** A node and the one around it. */
export interface PlacedNode {
  readonly node: SyntaxNode
  readonly parent: SyntaxNode | undefined
}

/** All nodes of a source file, outer ones first. */
export function syntaxNodes({path, text}: SourceFile): PlacedNode[] {
  const found: PlacedNode[] = []
  const visit = (node: SyntaxNode, parent: SyntaxNode | undefined): void => {
    found.push({node, parent})
    for (const field in node) {
      const value = node[field]
      if (Array.isArray(value)) {
        for (const each of value) if (typeof each?.type === 'string') visit(each, node)
      } else if (typeof value?.type === 'string') visit(value, node)
    }
  }
  visit(parseAst(text, {lang: path.endsWith('x') ? 'tsx' : 'ts'}) as unknown as SyntaxNode, undefined)
  return found
}
