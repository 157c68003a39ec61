import type {SourceFile} from '../../helpers/import-lines.js'
import {syntaxNodes} from '../../helpers/sources.js'
import type {Mutant} from './mutants.js'

const MARK = '// Planted fault: '

/** All marks in the sources, in no particular order. */
export function marksIn(files: readonly SourceFile[]): string[] {
  return files.flatMap(({text}) =>
    text.split('\n').flatMap(line => (line.trim().startsWith(MARK) ? [line.trim().slice(MARK.length)] : [])),
  )
}

/** The marked file with the fault planted. Throws unless exactly one line is marked, in the named function. */
export function plantFault(files: readonly SourceFile[], {what, inside, change}: Mutant): SourceFile {
  const marked = files.filter(({text}) => text.includes(`${MARK}${what}\n`))
  const [file] = marked
  if (!file || marked.length > 1) throw new Error(`"${MARK}${what}" is in ${marked.length} files`)
  const lines = file.text.split('\n')
  let at = lines.findIndex(line => line.trim() === MARK + what)
  while (lines[at]?.trim().startsWith('//')) at++
  const line = lines[at] ?? ''
  const found = functionAround(file, lines.slice(0, at).join('\n').length + 1 + line.search(/\S/))
  if (found !== inside) throw new Error(`${file.path}: "${what}" is marked in ${found}, not in ${inside}`)
  if (change && !line.includes(change[0])) throw new Error(`${file.path}: "${what}": no ${change[0]} in ${line}`)
  lines.splice(at, 1, ...(change ? [line.replace(change[0], () => change[1])] : []))
  return {path: file.path, text: lines.join('\n')}
}

/** The name of the method or top-level function at an offset. */
function functionAround(file: SourceFile, offset: number): string | undefined {
  for (const {node, parent} of syntaxNodes(file)) {
    if (offset < node.start || offset >= node.end) continue
    if (node.type === 'FunctionDeclaration') return node.id.name
    if (node.type === 'VariableDeclaration' && /^(Program|Export)/.test(parent?.type ?? ''))
      return node.declarations[0].id.name
    if (node.type === 'MethodDefinition') return (node.key.type === 'PrivateIdentifier' ? '#' : '') + node.key.name
  }
  return undefined
}
