// Joins chunks that are loaded together into one file. esbuild makes a chunk of every combination of entries that share a module,
// so a command would load more than a hundred files of a few kilobytes, and Node needs almost a millisecond for each.
import {readFileSync, rmSync, writeFileSync} from 'node:fs'
import {basename, dirname, join, relative} from 'node:path'
import {build} from 'esbuild'

/** An import of a chunk as esbuild writes it: `import{a as b,c}from"./X.js";` or `import"./X.js";`. */
const CHUNK_IMPORT = /import(?:\{([^}]*)\}from)?"(\.[^"]*\/[0-9A-Z]{8}\.js)";/g

/** The files that loading some files loads, by their paths; what they import later is not included. */
export function loadedWith(outputs, files) {
  const loaded = new Set(files)
  for (const file of loaded) {
    for (const {path, kind, external} of outputs[file].imports) {
      if (kind === 'import-statement' && !external) loaded.add(path)
    }
  }
  return loaded
}

/**
 * Writes chunks as one file and has all others import that. No chunk may import a file that imports another of them. Where
 * one is imported dynamically, a file stays in its place that exports the same. `outputs`, esbuild's description of the files,
 * is changed accordingly.
 */
export async function mergeChunks(root, outputs, name, members) {
  const merged = join('dist', 'chunks', `${name}.js`)
  /** What an export of a chunk is called in the merged file. */
  const nameIn = (file, own) => `${own}${members.indexOf(file)}`
  const exportsAs = (file, spell) => outputs[file].exports.map(own => spell(own, nameIn(file, own))).join()
  const all = members.map(
    file => `export{${exportsAs(file, (own, shared) => `${own} as ${shared}`)}}from"./${basename(file)}"`,
  )
  await build({
    absWorkingDir: root,
    stdin: {contents: all.join('\n'), resolveDir: join(root, 'dist', 'chunks')},
    outfile: merged,
    bundle: true,
    platform: 'node',
    target: 'node20',
    format: 'esm',
    minify: true,
    legalComments: 'none',
    charset: 'utf8',
    logLevel: 'warning',
    plugins: [{name: 'members', setup: builder => builder.onResolve({filter: /./}, resolve)}],
  })
  function resolve({path, kind}) {
    const file = join('dist', 'chunks', path)
    const isMember = kind === 'import-statement' && members.includes(file)
    return isMember ? {path: join(root, file), sideEffects: true} : {path, external: true}
  }

  const others = Object.keys(outputs).filter(file => !members.includes(file))
  for (const file of others) {
    const path = join(root, file)
    const before = readFileSync(path, 'utf8')
    const after = importMerged(file, before)
    if (after !== before) writeFileSync(path, after)
  }
  function importMerged(file, text) {
    const bindings = []
    let isImported = false
    const rest = text.replace(CHUNK_IMPORT, (statement, imported, path) => {
      const chunk = join(dirname(file), path)
      if (!members.includes(chunk)) return statement
      isImported = true
      for (const each of imported?.split(',') ?? []) {
        const [own, local = own] = each.split(' as ')
        bindings.push(`${nameIn(chunk, own)} as ${local}`)
      }
      return ''
    })
    if (!isImported) return text
    const place = relative(dirname(file), merged)
    const statement = `import{${bindings.join()}}from"${place.startsWith('.') ? place : `./${place}`}";`
    // After the first line, which is the banner.
    return rest.replace('\n', () => `\n${statement}`)
  }

  const laterIn = files => files.flatMap(({imports}) => imports.filter(({kind}) => kind === 'dynamic-import'))
  const isImportedLater = new Set(laterIn(Object.values(outputs)).map(({path}) => path))
  const joined = members.map(file => outputs[file])
  outputs[merged] = {inputs: Object.assign({}, ...joined.map(({inputs}) => inputs)), imports: laterIn(joined)}
  for (const file of members) {
    if (isImportedLater.has(file)) {
      const exported = exportsAs(file, (own, shared) => `${shared} as ${own}`)
      writeFileSync(join(root, file), `export{${exported}}from"./${basename(merged)}";\n`)
      outputs[file] = {...outputs[file], inputs: {}}
    } else {
      rmSync(join(root, file))
      delete outputs[file]
    }
  }
}
