import {posix} from 'node:path'

export interface SourceFile {
  /** From the root of the repository, with forward slashes: `src/lib/core/limits/limit.ts`. */
  readonly path: string
  readonly text: string
}

/** One import of a module, in whatever spelling. */
export interface ImportLine {
  readonly specifier: string
  /** The imported source file without its ending; `undefined` when it is a package. */
  readonly target: string | undefined
  /** `type` leaves nothing behind at run time, `dynamic` is an `import()`. */
  readonly kind: 'static' | 'dynamic' | 'type'
}

const COMMENT_OR_STRING = /\/\*[\s\S]*?\*\/|\/\/[^\n]*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`/g
const FROM = /\b(?:import|export)\s*(type\b(?!\s*,|\s+from\b))?[\w\s{},*$]*?\bfrom\s*['"]([^'"]+)['"]/g
// At the start of a line: in a text, the word ends nothing.
const BARE = /^\s*import\s*['"]([^'"]+)['"]/gm
const CALL = /(\btypeof\s+)?\bimport\s*\(\s*['"`]([^'"`]+)['"`]/g

/** All imports of a TypeScript file; those in comments do not count. */
export function importLines({path, text}: SourceFile): ImportLine[] {
  const code = text.replace(COMMENT_OR_STRING, piece => (piece.startsWith('/') ? ' ' : piece))
  const line = (specifier: string, kind: ImportLine['kind']): ImportLine => {
    const isFile = specifier.startsWith('.')
    return {specifier, kind, target: isFile ? withoutEnding(posix.join(posix.dirname(path), specifier)) : undefined}
  }
  return [
    ...Array.from(code.matchAll(FROM), ([, type, specifier = '']) => line(specifier, type ? 'type' : 'static')),
    ...Array.from(code.matchAll(BARE), ([, specifier = '']) => line(specifier, 'static')),
    ...Array.from(code.matchAll(CALL), ([, type, specifier = '']) => line(specifier, type ? 'type' : 'dynamic')),
  ]
}

/** Import cycles, each reported once; type imports count, since they couple files too. */
export function importCycles(files: readonly SourceFile[]): string[] {
  const targets = new Map(files.map(file => [withoutEnding(file.path), importLines(file).map(({target}) => target)]))
  const rings = new Set<string>()
  const finished = new Set<string>()
  const visit = (file: string, trail: readonly string[]): void => {
    const start = trail.indexOf(file)
    if (start >= 0) rings.add([...trail.slice(start), file].join(' -> '))
    if (start >= 0 || finished.has(file)) return
    for (const target of targets.get(file) ?? []) if (target) visit(target, [...trail, file])
    finished.add(file)
  }
  for (const file of targets.keys()) visit(file, [])
  return [...rings]
}

function withoutEnding(path: string): string {
  return path.replace(/\.(?:js|jsx|ts|tsx)$/, '')
}
