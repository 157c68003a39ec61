// Bundles the command line with all its packages. Node loads a few dozen files in a fraction of the time of hundreds. Every
// command keeps its place in dist, where oclif finds it; what commands share is in dist/chunks. One file for everything was
// slower: each command would parse all of it.
import {readdirSync, readFileSync, statSync, writeFileSync} from 'node:fs'
import {join} from 'node:path'
import {brotliCompressSync} from 'node:zlib'
import {build} from 'esbuild'
import {banner, inGroups, inOwnFile, options, root, sharedYaml} from './bundle-options.js'

const sources = readdirSync(join(root, 'src'), {recursive: true}).filter(name => /\.tsx?$/.test(name))
const entries = [
  ...sources.filter(name => name.startsWith('commands')).map(name => name.slice(0, -'.ts'.length)),
  'lib/cli/main',
  'lib/cli/completion/main',
  'lib/cli/help/help',
  'lib/cli/help/command-not-found',
  'lib/local/supervisor/main',
].map(name => ({in: join('src', `${name}.ts`), out: name}))

/** The AWS clients are one file, with the operations that zael uses. bin/run.js shares the early signals with the commands. */
const ownFiles = [
  inOwnFile(/^@aws-sdk\/client-/, '#aws-sdk'),
  inOwnFile(/\/early-signals\.js$/, '#early-signals'),
  sharedYaml,
]

/** Packages that oclif needs for help, for errors, and to find commands without a manifest: most commands never load this file. */
const OCLIF_PACKAGES = '#oclif-packages'
const oclifPackages = new Set()

/** Modules of oclif load what they require at its first use: most commands need neither its help nor its search for commands. */
const lazyOclif = {
  name: 'lazy oclif',
  setup(builder) {
    builder.onLoad({filter: /\/@oclif\/core\/lib\/.+\.js$/}, ({path}) => {
      const text = readFileSync(path, 'utf8')
        // Sorting starts ICU, a fifteenth of the time of a command. The manifest is sorted.
        .replace('.sort((a, b) => a.id.localeCompare(b.id))', '')
        .replaceAll(
          /require\(["'](?!debug|ansis|get-package-type|supports-color|typescript)([\w-]+)["']\)/g,
          (_, name) => {
            oclifPackages.add(name)
            return `require("${OCLIF_PACKAGES}")["${name}"]`
          },
        )
        // The rest of that package is for Windows, and loads child_process.
        .replace("(await import('wsl-utils')).isWsl", "require('is-wsl').default")
      const required = /^((?:const|var) (\w+_1) =) (?=(?:__\w+\()?require\()/gm
      const names = new Set([...text.matchAll(required)].map(([, , name]) => name))
      const contents = text.replaceAll(required, '$1 () => ')
      return {contents: contents.replaceAll(/\b(\w+_1)\b(?! =)/g, name => (names.has(name) ? `(${name}())` : name))}
    })
    builder.onResolve({filter: /^#oclif-packages$/}, ({path}) => ({path, external: true}))
    // Importing it calls all getters of `process`: some open stdin, or list all flags of Node.
    builder.onResolve({filter: /^node:process$/}, ({path}) => ({path, namespace: 'global'}))
    builder.onLoad({filter: /./, namespace: 'global'}, () => ({contents: 'module.exports = process'}))
  },
}

const commandLine = {
  ...options,

  outdir: 'dist',
  chunkNames: 'chunks/[hash]',
  splitting: true,
  banner,
  // The engine is installed beside zael. The others are for development of oclif and Ink.
  external: ['@dynoxide/*', 'typescript', 'ts-node', 'tsx', 'react-devtools-core'],
  define: {'process.env.NODE_ENV': '"production"'}, // of React
}

/** A module with all values that the sources import from the AWS clients. */
function sdkModule() {
  const used = new Map()
  const use = (client, name) => used.set(client, (used.get(client) ?? new Set()).add(name))
  for (const source of sources) {
    const text = readFileSync(join(root, 'src', source), 'utf8')
    for (const [, names, client] of text.matchAll(/^import \{([^}]+)\} from '(@aws-sdk\/client-[\w-]+)'/gm)) {
      for (const name of names.match(/(?<=^|,)\s*(?!type )\w+/g) ?? []) use(client, name.trim())
    }
    // On demand: `const {S3Client} = await import(…)` or `(await import(…)).S3Client`.
    for (const [, names, client, name] of text.matchAll(
      /(?:\{(.+)\} = )?await import\('(@aws-sdk\/client-[\w-]+)'\)(?:\)\.(\w+))?/g,
    )) {
      for (const each of (names ?? name)?.match(/\w+/g) ?? []) use(client, each)
    }
  }
  const transport = readFileSync(join(root, 'src/lib/dynamo/transport.ts'), 'utf8')
  for (const [, operation] of transport.matchAll(/input: sdk\.(\w+)Input/g))
    use('@aws-sdk/client-dynamodb', `${operation}Command`)
  use('@aws-sdk/client-dynamodb', 'DynamoDBClient')
  return [...used].map(([client, names]) => `export {${[...names].join()}} from '${client}'`).join('\n')
}

/**
 * The schemas of a client name their keys by constants, as in `{[_hH]: 1}`. esbuild keeps such objects, used or not, because
 * computing a key may have effects. With literal keys, it drops the schemas of other operations: an eighth of the file.
 */
const literalKeys = {
  name: 'literal keys',
  setup(builder) {
    builder.onLoad({filter: /\/@aws-sdk\/.+\/schemas\/schemas_\d+\.js$/}, ({path}) => {
      const text = readFileSync(path, 'utf8')
      const values = new Map(
        [...text.matchAll(/^const (_\w+) = ("[^"]*");$/gm)].map(([, name, value]) => [name, value]),
      )
      return {
        contents: text.replaceAll(/\[(_\w+)\]:/g, (key, name) => (values.has(name) ? `${values.get(name)}:` : key)),
      }
    })
  },
}

/** Ink's layout engine is WebAssembly in base64, which npm can hardly compress: compressed before, it is half as large. */
const smallLayout = {
  name: 'small layout',
  setup(builder) {
    builder.onLoad({filter: /yoga-wasm-base64-esm\.js$/}, ({path}) => {
      const text = readFileSync(path, 'utf8')
      const [, binary] = text.match(/base64,([\w+/=]+)/)
      const compressed = brotliCompressSync(Buffer.from(binary, 'base64')).toString('base64')
      const contents = text.replace(
        `base64,${binary}"`,
        `base64,"+__brotli(Buffer.from("${compressed}","base64")).toString("base64")`,
      )
      return {contents: `import {brotliDecompressSync as __brotli} from 'node:zlib'\n${contents}`}
    })
  },
}

const sdk = await build({
  ...options,
  stdin: {contents: sdkModule(), resolveDir: root},
  outfile: 'dist/chunks/aws-sdk.js',
  plugins: [literalKeys],
  banner,
  // For browsers only.
  external: ['bowser'],
})

const yaml = await build({
  ...options,
  // The build for Node is CommonJS, whose exports an ES module cannot pass on.
  stdin: {contents: `export * from './node_modules/yaml/browser/index.js'`, resolveDir: root},
  outfile: 'dist/chunks/yaml.js',
})

// bin/run.js loads these before anything else, or nothing else: each is one file.
const early = await build({
  ...options,
  entryPoints: ['src/lib/cli/base/early-signals.ts', 'src/lib/cli/help/root-help.ts'],
  outbase: 'src',
  outdir: 'dist',
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

// The first build only tells which modules are loaded together.
const alone = await build({
  ...commandLine,
  entryPoints: entries,
  plugins: [...ownFiles, lazyOclif],
  write: false,
})
const {outputs: separate} = alone.metafile
const filesOf = isWanted => Object.keys(separate).filter(file => isWanted(separate[file].entryPoint ?? ''))
const ofCommands = filesOf(entry => entry.startsWith('src/commands/')).map(file => loadedWith([file]))
const ofCompletion = loadedWith(filesOf(entry => entry.endsWith('/completion/main.ts')))
const ofTables = loadedWith(filesOf(entry => FOR_TABLES.includes(entry)))

/** The files that loading some files loads; what they import later is not included. */
function loadedWith(files) {
  const loaded = new Set(files)
  for (const file of loaded) {
    for (const {path, kind} of separate[file]?.imports ?? []) if (kind === 'import-statement') loaded.add(path)
  }
  return loaded
}

/** Groups of modules that most commands load; each may import those before it. */
const GROUPS = ['shared', 'common', 'table']

function groupOf(file, module) {
  if (!file.startsWith('dist/chunks/')) return
  const isCommon = ofCommands.filter(loaded => loaded.has(file)).length > 0.75 * ofCommands.length
  if (isCommon) return ofCompletion.has(file) ? 'shared' : 'common'
  if (ofTables.has(file) && !ofCompletion.has(file)) return 'table'
  if (ofCommands.some(loaded => loaded.has(file)) || ofCompletion.has(file)) return
  // Loaded on demand: a group per room and the packages that come with a module.
  const [, , room] = module.split('/')
  const packages = [...loadedWith([file])].flatMap(each => Object.keys(separate[each]?.inputs ?? {[each]: 1}))
  const heavy = HEAVY.filter(name => packages.some(path => path.includes(name)))
  return [room, ...heavy].join()
}
const HEAVY = ['#aws-sdk', '/zod/', '#yaml', '/ink/', '/cli-table3/']
const groups = new Map(
  Object.entries(separate).flatMap(([file, {inputs}]) =>
    Object.keys(inputs).map(module => [module, groupOf(file, module)]),
  ),
)

// Known now that the first build has read oclif.
const packages = await build({
  ...options,
  format: 'cjs',
  stdin: {
    contents: [...oclifPackages]
      .map(name => `exports.__defineGetter__('${name}', () => require('${name}'))`)
      .join('\n'),
    resolveDir: root,
  },
  outfile: 'dist/chunks/oclif-packages.cjs',
  external: ['lilconfig', 'minimatch', 'semver', 'tinyglobby'], // to find commands without a manifest
})

/** main.ts imports nothing of a group, but what it imports of oclif is in the chunk of one. */
const startInGroup = {
  name: 'start in group',
  setup(builder) {
    builder.onLoad({filter: /\/src\/lib\/cli\/main\.ts$/}, ({path}) => ({
      contents: `import 'group:common'\n${readFileSync(path, 'utf8')}`,
      loader: 'ts',
    }))
  },
}

const together = await build({
  ...commandLine,
  entryPoints: entries,
  plugins: [...ownFiles, lazyOclif, smallLayout, startInGroup, inGroups(groups, GROUPS)],
})

// Which modules went into which file: test/e2e/start-up looks up what a command has loaded.
const outputs = [sdk, yaml, early, packages, together].flatMap(({metafile}) => Object.entries(metafile.outputs))
const contents = Object.fromEntries(outputs.map(([file, {inputs: modules}]) => [file, Object.keys(modules)]))
writeFileSync(join(root, 'dist', 'chunks', 'contents.json'), JSON.stringify(contents))
const bytes = outputs.reduce((sum, [file]) => sum + statSync(join(root, file)).size, 0)
console.log(`command line: ${outputs.length} files, ${Math.round(bytes / 1024)} KiB`)
