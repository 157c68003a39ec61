// Bundles the command line in dist: what a command needs is then in a few dozen files instead of hundreds, which Node loads
// in a fraction of the time. Every entry keeps its place, so oclif finds it as before; what entries share is in dist/chunks.
// The library stays as the compiler wrote it. One file for everything was slower: each command would parse all of it.
import {readdirSync, readFileSync, statSync, writeFileSync} from 'node:fs'
import {join, relative} from 'node:path'
import {fileURLToPath} from 'node:url'
import {build} from 'esbuild'

const root = fileURLToPath(new URL('..', import.meta.url))
const commands = readdirSync(join(root, 'src', 'commands'), {recursive: true}).filter(name => name.endsWith('.ts'))

const entries = [
  ...commands.map(name => join('commands', name.slice(0, -'.ts'.length))),
  'lib/cli/main',
  'lib/cli/completion/main',
  'lib/cli/help/help',
  'lib/cli/help/command-not-found',
  'lib/cli/help/root-help',
].map(name => ({in: join('src', `${name}.ts`), out: name}))
// Loaded first by bin/run.js, and shared with the commands.
const SIGNALS = 'lib/cli/base/early-signals'

const options = {
  absWorkingDir: root,
  outdir: 'dist',
  chunkNames: 'chunks/[hash]',
  bundle: true,
  splitting: true,
  platform: 'node',
  target: 'node20',
  format: 'esm',
  // Loaded by few commands, from where they are installed: the live view, the AWS clients, what runs from source.
  external: ['ink', 'react', 'react/*', '@aws-sdk/*', '@smithy/*', '@dynoxide/*', 'typescript', 'ts-node', 'tsx'],
  // The CommonJS modules among them load Node's own modules by require(), and ask where they are.
  banner: {
    js: [
      "import {createRequire as __createRequire} from 'node:module'; const require = __createRequire(import.meta.url);",
      'const __filename = import.meta.filename; const __dirname = import.meta.dirname;',
    ].join(' '),
  },
  minify: true,
  // Errors are recognised by the name of their class.
  keepNames: true,
  legalComments: 'none',
  charset: 'utf8',
  metafile: true,
  logLevel: 'warning',
  logLimit: 10,
}

// Loaded by every command that uses a table.
const FOR_TABLES = [
  'dynamo/connection.ts',
  'dynamo/server-clock.ts',
  'dynamo/transports/create.ts',
  'dynamo/transports/lean.ts',
  'local/state-dir/state.ts',
  'repository/repository.ts',
  'repository/table/open-table.ts',
].map(name => `src/lib/${name}`)

// esbuild makes a chunk of every combination of entries that share a module: a command would load more than a hundred files of a few
// kilobytes, and Node needs almost a millisecond for each. So the first build only tells which modules are loaded together.
const alone = await build({
  ...options,
  entryPoints: [...entries, {in: `src/${SIGNALS}.ts`, out: SIGNALS}],
  write: false,
})
const {outputs: separate} = alone.metafile
const filesOf = isWanted => Object.keys(separate).filter(file => isWanted(separate[file].entryPoint ?? ''))
const ofCommands = filesOf(entry => entry.startsWith('src/commands/')).map(file => loadedWith([file]))
const ofSignals = filesOf(entry => entry === `src/${SIGNALS}.ts`)
const ofHelp = loadedWith([...filesOf(entry => entry.endsWith('/root-help.ts')), ...ofSignals])
const ofCompletion = loadedWith([...filesOf(entry => entry.endsWith('/completion/main.ts')), ...ofSignals])
const ofTables = loadedWith(filesOf(entry => FOR_TABLES.includes(entry)))

/** The files that loading some files loads; what they import later is not included. */
function loadedWith(files) {
  const loaded = new Set(files)
  for (const file of loaded) {
    for (const {path, kind, external} of separate[file].imports) {
      if (kind === 'import-statement' && !external) loaded.add(path)
    }
  }
  return loaded
}

/** Groups of modules that are loaded together; each may import those before it. */
const GROUPS = ['base', 'shared', 'common', 'table']

function groupOf(file) {
  if (!file.startsWith('dist/chunks/')) return
  const isCommon = ofCommands.filter(loaded => loaded.has(file)).length > 0.75 * ofCommands.length
  if (ofHelp.has(file)) return isCommon && ofCompletion.has(file) ? 'base' : undefined
  if (isCommon) return ofCompletion.has(file) ? 'shared' : 'common'
  return ofTables.has(file) && !ofCompletion.has(file) ? 'table' : undefined
}
const groups = new Map(
  Object.entries(separate).flatMap(([file, {inputs}]) => Object.keys(inputs).map(module => [module, groupOf(file)])),
)

/**
 * Has modules outside of a group import the whole group in place of one of its modules. So the same entries reach all modules of
 * a group, and esbuild writes them into one chunk. An exported name exists once in src/lib, so a group can export all names.
 */
const inGroups = {
  name: 'groups',
  setup(builder) {
    builder.onResolve({filter: /^group:/}, ({path}) => ({path: path.slice('group:'.length), namespace: 'group'}))
    builder.onResolve({filter: /^\.\.?\//}, async ({path, importer, namespace, resolveDir, kind, pluginData}) => {
      if (pluginData === 'resolved' || namespace !== 'file') return
      const resolved = await builder.resolve(path, {importer, resolveDir, kind, pluginData: 'resolved'})
      const [module, from] = [resolved.path, importer].map(file => relative(root, file))
      const group = groups.get(module)
      const isWithin = groups.get(from) === group && kind !== 'dynamic-import'
      // Everything else is left to esbuild, which then also finds the settings for JSX.
      return group && module.startsWith('src/') && !isWithin ? {path: group, namespace: 'group'} : undefined
    })
    // It imports nothing of a group, but what it imports of oclif is in the chunk of one.
    builder.onLoad({filter: /\/src\/lib\/cli\/main\.ts$/}, ({path}) => ({
      contents: `import 'group:common'\n${readFileSync(path, 'utf8')}`,
      loader: 'ts',
    }))
    builder.onLoad({filter: /./, namespace: 'group'}, ({path: group}) => {
      const before = GROUPS.slice(0, GROUPS.indexOf(group)).map(each => `import 'group:${each}'`)
      const members = [...groups.keys()].filter(module => groups.get(module) === group && module.startsWith('src/'))
      const exported = members.map(module => `export * from './${module}'`)
      return {contents: [...before, ...exported].join('\n'), resolveDir: root}
    })
  },
}
const together = [...entries, {in: 'group:base', out: SIGNALS}]
const {outputs: files} = (await build({...options, entryPoints: together, plugins: [inGroups]})).metafile

// Which modules went into which file: test/e2e/start-up looks up what a command has loaded.
const outputs = Object.entries(files)
const contents = Object.fromEntries(outputs.map(([file, {inputs: modules}]) => [file, Object.keys(modules)]))
writeFileSync(join(root, 'dist', 'chunks', 'contents.json'), JSON.stringify(contents))
const bytes = outputs.reduce((sum, [file]) => sum + statSync(join(root, file)).size, 0)
console.log(`command line: ${outputs.length} files, ${Math.round(bytes / 1024)} KiB`)
