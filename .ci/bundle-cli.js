// Bundles the command line in dist: what a command needs is then in a few dozen files instead of hundreds, which Node loads
// in a fraction of the time. Every entry keeps its place, so oclif finds it as before; what entries share is in dist/chunks.
// The library stays as the compiler wrote it. One file for everything was slower: each command would parse all of it.
import {readdirSync, statSync, writeFileSync} from 'node:fs'
import {join} from 'node:path'
import {fileURLToPath} from 'node:url'
import {build} from 'esbuild'
import {loadedWith, mergeChunks} from './merge-chunks.js'

const root = fileURLToPath(new URL('..', import.meta.url))
const commands = readdirSync(join(root, 'src', 'commands'), {recursive: true}).filter(name => name.endsWith('.ts'))

const {metafile} = await build({
  absWorkingDir: root,
  entryPoints: [
    ...commands.map(name => join('src', 'commands', name)),
    // Loaded first by bin/run.js, and shared with the commands.
    'src/lib/cli/base/early-signals.ts',
    'src/lib/cli/main.ts',
    'src/lib/cli/completion/main.ts',
    'src/lib/cli/help/help.ts',
    'src/lib/cli/help/command-not-found.ts',
    'src/lib/cli/help/root-help.ts',
  ],
  outbase: 'src',
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
})

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

const {outputs: files} = metafile
const filesOf = isWanted => Object.keys(files).filter(file => isWanted(files[file].entryPoint ?? ''))
const ofCommands = filesOf(entry => entry.startsWith('src/commands/')).map(file => loadedWith(files, [file]))
// bin/run.js loads the signals before anything else.
const ofSignals = filesOf(entry => entry.endsWith('/early-signals.ts'))
const ofHelp = loadedWith(files, [...filesOf(entry => entry.endsWith('/root-help.ts')), ...ofSignals])
const ofCompletion = loadedWith(files, [...filesOf(entry => entry.endsWith('/completion/main.ts')), ...ofSignals])
const ofTables = loadedWith(
  files,
  filesOf(entry => FOR_TABLES.includes(entry)),
)
/** Whether most commands load it. */
const isCommon = file => ofCommands.filter(loaded => loaded.has(file)).length > 0.75 * ofCommands.length
const groups = {
  base: file => ofHelp.has(file) && ofCompletion.has(file) && isCommon(file),
  shared: file => !ofHelp.has(file) && ofCompletion.has(file) && isCommon(file),
  common: file => !ofHelp.has(file) && !ofCompletion.has(file) && isCommon(file),
  table: file => !ofHelp.has(file) && !ofCompletion.has(file) && !isCommon(file) && ofTables.has(file),
}
const chunks = Object.keys(files).filter(file => file.startsWith('dist/chunks/'))
for (const [name, isMember] of Object.entries(groups)) await mergeChunks(root, files, name, chunks.filter(isMember))

// Which modules went into which file: test/e2e/start-up looks up what a command has loaded.
const outputs = Object.entries(files)
const contents = Object.fromEntries(outputs.map(([file, {inputs}]) => [file, Object.keys(inputs)]))
writeFileSync(join(root, 'dist', 'chunks', 'contents.json'), JSON.stringify(contents))
const bytes = outputs.reduce((sum, [file]) => sum + statSync(join(root, file)).size, 0)
console.log(`command line: ${outputs.length} files, ${Math.round(bytes / 1024)} KiB`)
