import {execFile} from 'node:child_process'
import {mkdtempSync, readdirSync, readFileSync, rmSync} from 'node:fs'
import {tmpdir} from 'node:os'
import {dirname, join, posix} from 'node:path'
import {fileURLToPath} from 'node:url'
import {promisify} from 'node:util'
import {afterAll, beforeAll, describe, expect, it} from 'vitest'
import {type PlacedNode, type SyntaxNode, syntaxNodes} from '../helpers/sources.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** Rooms whose errors callers see. Of the table's errors only four are exported (decision 42). */
const ROOMS_THAT_THROW = /^(core|repository|limiter)\/(?!calendar\/)/

/** Words of the inside: units, test seams, and advice for the command line. */
const INSIDE_WORDS = [
  /\bbigint\b/,
  /Milli\b/,
  /\bwcu\b/,
  /\bMap</,
  /^\s*readonly (transport|clock|random|merge)\b/m,
  /`zael /,
]

let folder = ''
let files: ReadonlyMap<string, DeclarationFile>

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'zael-declarations-'))
  const tsc = join(ROOT, 'node_modules/.bin/tsc')
  const options = ['-p', 'tsconfig.build.json', '--emitDeclarationOnly', '--outDir', folder]
  await promisify(execFile)(tsc, options, {cwd: ROOT})
  const lib = join(folder, 'lib')
  const paths = readdirSync(lib, {recursive: true, encoding: 'utf8'}).filter(path => path.endsWith('.d.ts'))
  files = new Map(paths.map(path => [path, readDeclarations(path, readFileSync(join(lib, path), 'utf8'))]))
})

afterAll(() => rmSync(folder, {recursive: true}))

interface DeclarationFile {
  readonly text: string
  /** Declarations by name, of any kind. */
  readonly declared: ReadonlyMap<string, SyntaxNode>
  /** Local names and where they come from; `undefined` for those of packages. */
  readonly imported: ReadonlyMap<string, {readonly path: string; readonly name: string} | undefined>
  readonly exported: ReadonlyMap<string, {readonly path: string; readonly name: string}>
}

function readDeclarations(path: string, text: string): DeclarationFile {
  const declared = new Map<string, SyntaxNode>()
  const imported = new Map<string, {path: string; name: string} | undefined>()
  const exported = new Map<string, {path: string; name: string}>()
  const target = (specifier: string) =>
    specifier.startsWith('.') ? posix.join(dirname(path), specifier).replace(/\.js$/, '.d.ts') : undefined
  for (const {node, parent} of syntaxNodes({path: `${path}.ts`, text})) {
    if (node.type === 'ImportDeclaration') {
      const from = target(node.source.value)
      for (const {local, imported: name} of node.specifiers) {
        imported.set(local.name, from && name ? {path: from, name: name.name} : undefined)
      }
    }
    if (node.type === 'ExportNamedDeclaration') {
      const from = node.source ? (target(node.source.value) ?? '') : path
      for (const {local, exported: name} of node.specifiers) exported.set(name.name, {path: from, name: local.name})
    }
    const isTop = parent?.type === 'Program' || parent?.type === 'ExportNamedDeclaration'
    if (isTop && node.id?.name) declared.set(node.id.name, node)
  }
  return {text, declared, imported, exported}
}

/** The source text of everything that an entry exports, and the types in it that the entry does not export. */
function publicFace(entry: string): {text: string; hidden: string[]} {
  const {exported, declared} = files.get(entry) as DeclarationFile
  const own = [...declared.keys()].map(name => ({path: entry, name}))
  const all = [...exported.values(), ...own]
  // Users of `zael/testing` can also import the exports of `zael`.
  const main = (files.get('index.d.ts') as DeclarationFile).exported.values()
  const ids = new Set([...all, ...main].map(({path, name}) => `${path}:${name}`))
  const hidden = new Set<string>()
  const texts: string[] = []
  for (const {path, name} of all) {
    const file = files.get(path)
    const node = file?.declared.get(name)
    if (!file || !node) continue
    texts.push(file.text.slice(node.start, node.end))
    for (const used of namesUsedIn(node)) {
      const from = file.imported.has(used)
        ? file.imported.get(used)
        : file.declared.has(used)
          ? {path, name: used}
          : undefined
      const isOfPackage = from && files.get(from.path)?.exported.get(from.name)?.path === ''
      if (from && !isOfPackage && !ids.has(`${from.path}:${from.name}`))
        hidden.add(`${name} uses ${from.name} of ${from.path}`)
    }
  }
  return {text: texts.join('\n'), hidden: [...hidden].sort()}
}

/** Names of types that a declaration refers to, and of classes that it extends. */
function namesUsedIn(declaration: SyntaxNode): Set<string> {
  const names = new Set<string>()
  const add = (node: SyntaxNode | undefined) => {
    if (node?.type === 'Identifier') names.add(node.name)
  }
  for (const {node} of nodesIn(declaration)) {
    if (node.type === 'TSTypeReference') add(node.typeName)
    if (node.type === 'TSTypeQuery') add(node.exprName)
    if (node.type === 'TSInterfaceHeritage' || node.type === 'TSClassImplements') add(node.expression)
    if (node.type === 'ClassDeclaration') add(node.superClass)
  }
  return names
}

function nodesIn(node: SyntaxNode): PlacedNode[] {
  const inner = Object.values(node)
    .flat()
    .filter((value): value is SyntaxNode => typeof value?.type === 'string')
  return [{node, parent: undefined}, ...inner.flatMap(nodesIn)]
}

const ADAPTERS = ['ai-sdk', 'express', 'fastify', 'fetch', 'hono', 'prices'].map(name => `adapters/${name}.d.ts`)
const ENTRIES = ['index.d.ts', 'adapters/otel/index.d.ts', 'local/testing/index.d.ts', ...ADAPTERS]

describe('the types of the library', () => {
  it.each(ENTRIES)('export every type that exports of %s mention', entry => {
    expect(publicFace(entry).hidden).toEqual([])
  })

  it.each(ENTRIES)('include the types of "await using" for older targets: %s', entry => {
    expect(files.get(entry)?.text).toMatch(/^\/\/\/ <reference lib="esnext\.disposable"/)
  })

  it('export every error class that the library throws', () => {
    const {exported} = files.get('index.d.ts') as DeclarationFile
    const errors = [...files].flatMap(([path, {declared}]) =>
      ROOMS_THAT_THROW.test(path)
        ? [...declared]
            .filter(([, node]) => /^(ZaelError|InvalidInput|RequestRefused)$/.test(node.superClass?.name ?? ''))
            .map(([name]) => name)
        : [],
    )
    expect(errors.length).toBeGreaterThan(5)
    expect(errors.filter(name => !exported.has(name))).toEqual([])
  })

  it('show whole tokens and records, no test hooks and no advice for the command line', () => {
    const {text} = publicFace('index.d.ts')
    expect(text).toContain('class RateLimiter')
    expect(INSIDE_WORDS.flatMap(word => text.match(word)?.[0] ?? [])).toEqual([])
  })
})
