// Writes the declarations of the library from those in .cache/types, where the compiler wrote a file per module: one file per
// entry point of package.json, and dist/lib/types.d.ts with the declarations that these refer to.
import {mkdirSync, readFileSync, writeFileSync} from 'node:fs'
import {dirname, join, relative} from 'node:path'
import {parseAst} from 'vitest/node'
import {root} from './bundle-options.js'

const {exports} = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const entries = Object.values(exports)
  .flatMap(({types = []}) => types)
  .map(path => path.replace('./dist/', ''))
const SHARED = 'lib/types.d.ts'

const FROM = /^(?:import|export)\b[^;]*?\bfrom ["'](?<specifier>[^"']+)["'];\n/gm
/** Entries, and then all modules that they reach. */
const modules = new Map(entries.map(path => [path, read(path)]))
for (const [path, text] of modules) {
  for (const {groups} of text.matchAll(FROM)) {
    const module = moduleOf(path, groups.specifier)
    if (module !== undefined && !modules.has(module)) modules.set(module, read(module))
  }
}

const declared = [...modules]
  .filter(([path]) => !entries.includes(path))
  .flatMap(([path, text]) => declarationsOf(path, text.replace(FROM, '')))
const used = new Set(entries.flatMap(path => wordsOf(modules.get(path))))
for (const word of used) {
  for (const {text} of declared.filter(({name}) => name === word)) for (const each of wordsOf(text)) used.add(each)
}
const kept = declared.filter(({name}) => used.has(name))

const places = new Map()
for (const {name, path} of kept) {
  const other = places.get(name) ?? path
  if (other !== path) throw new Error(`${name} is declared in ${other} and in ${path}: rename one of them`)
  places.set(name, path)
}

/** Names that come from packages, as `{A, B}` or `* as name`. */
const imported = new Map()
for (const [path, text] of modules) {
  if (entries.includes(path)) continue
  for (const [statement, specifier] of text.matchAll(FROM)) {
    const module = moduleOf(path, specifier)
    if (entries.includes(module)) throw new Error(`${path} imports the entry point ${module}`)
    const namespace = /\* as \w+/.exec(statement)?.[0]
    if (/\bas\b/.test(statement) && (namespace === undefined || module !== undefined))
      throw new Error(`${path} renames what it imports: ${statement}`)
    if (module !== undefined) continue
    const names = namespace ? [namespace] : /\{(.+)\}/s.exec(statement)[1].match(/(?!type\b)\b\w+/g)
    for (const name of names) if (used.has(/\w+$/.exec(name)[0])) imported.set(name, specifier)
  }
}
const imports = [...imported].map(
  ([name, from]) => `import type ${name.startsWith('*') ? name : `{ ${name} }`} from '${from}';\n`,
)
write(SHARED, [...imports, ...kept.map(({text}) => text), '\nexport {};\n'].join(''))

for (const path of entries) {
  const text = modules.get(path).replace(FROM, (statement, specifier) => {
    const module = moduleOf(path, specifier)
    if (module === undefined) return statement
    const to = relative(dirname(path), entries.includes(module) ? module : SHARED).replace(/\.d\.ts$/, '.js')
    return statement.replace(specifier, to.startsWith('.') ? to : `./${to}`)
  })
  write(path, text)
}
console.log(`declarations: ${kept.length} in ${entries.length + 1} files`)

/** The file that a relative specifier names. */
function moduleOf(path, specifier) {
  return specifier.startsWith('.') ? join(dirname(path), specifier).replace(/\.js$/, '.d.ts') : undefined
}

/** The declarations of a module, each with the comments before it. */
function declarationsOf(path, text) {
  const {body} = parseAst(text, {lang: 'dts'}, path)
  const own = body.filter(({type, declaration}) => type !== 'ExportNamedDeclaration' || declaration !== null)
  return own.map((statement, at) => {
    const {declarations, id} = statement.declaration ?? statement
    const {name} = id ?? declarations[0].id
    return {path, name, text: text.slice(own[at - 1]?.end ?? 0, statement.end)}
  })
}

function wordsOf(text) {
  return text.replaceAll(/\/\*\*.*?\*\//gs, '').match(/\w+/g) ?? []
}

function read(path) {
  return readFileSync(join(root, '.cache', 'types', path), 'utf8')
}

function write(path, text) {
  mkdirSync(dirname(join(root, 'dist', path)), {recursive: true})
  writeFileSync(join(root, 'dist', path), text)
}
