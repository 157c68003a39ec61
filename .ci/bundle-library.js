// Bundles the library: a file per entry point of package.json. They share dist/lib/chunks, so that no class exists twice.
// What `zael` itself loads at once is one chunk. The SDK, and packages that a program has too, stay outside.
import {mkdirSync, readFileSync, writeFileSync} from 'node:fs'
import {dirname, join} from 'node:path'
import {build} from 'esbuild'
import {inGroups, options, root, sharedYaml} from './bundle-options.js'

const {exports} = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const entryPoints = Object.values(exports)
  .filter(({types}) => types !== undefined)
  .map(target => target.default.replace(/^\.\/dist\/(.+)\.js$/, '$1'))
  .map(name => ({in: `src/${name}.ts`, out: name}))

const library = {
  ...options,
  outdir: 'dist',
  chunkNames: 'lib/chunks/[hash]',
  splitting: true,
  write: false,
  external: ['@aws-sdk/*', '@opentelemetry/api'],
  // Names stay as they are. Code that keeps them would make the bundler of a program include every class.
  minify: false,
  minifySyntax: true,
  minifyWhitespace: true,
  keepNames: false,
  // Node prints the line that threw an error that nobody caught. Without this, a line is a whole file.
  lineLimit: 160,
}

const {metafile} = await build({
  ...library,
  entryPoints: entryPoints.filter(entry => entry.out === 'lib/index'),
  plugins: [sharedYaml],
})
const main = metafile.outputs['dist/lib/index.js']
const groups = new Map(Object.keys(main.inputs).map(module => [module, 'library']))
groups.delete('src/lib/index.ts')

const {outputFiles, metafile: built} = await build({
  ...library,
  entryPoints,
  plugins: [sharedYaml, inGroups(groups, ['library'])],
})
for (const {path, text} of outputFiles) {
  mkdirSync(dirname(path), {recursive: true})
  // Chunks have no side effects, as package.json says. Bundlers warn about an import for the sake of one.
  writeFileSync(path, text.replaceAll(/import"[.\w/]+";/g, ''))
}
// Which modules went into which file: tests look up what the library loads.
const contents = Object.entries(built.outputs).map(([file, {inputs}]) => [file, Object.keys(inputs)])
writeFileSync(join(root, 'dist', 'lib', 'contents.json'), JSON.stringify(Object.fromEntries(contents)))
const bytes = outputFiles.reduce((sum, {contents: each}) => sum + each.length, 0)
console.log(`library: ${outputFiles.length} files, ${Math.round(bytes / 1024)} KiB`)
