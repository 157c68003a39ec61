// Bundles the aggregator for AWS Lambda into one file, with everything it needs: a deployment downloads nothing.
// Writes aggregator.mjs, its archive aggregator.zip and aggregator.json (hash and size) to dist/lambda, or to the folder given.
import {createHash} from 'node:crypto'
import {mkdirSync, writeFileSync} from 'node:fs'
import {join} from 'node:path'
import process from 'node:process'
import {build} from 'esbuild'
import {banner, options, root} from './bundle-options.js'
import {zipOf} from './zip.js'

const folder = process.argv[2] ?? join(root, 'dist', 'lambda')

const {outputFiles, metafile} = await build({
  ...options,
  entryPoints: ['src/lib/aggregator/handler.ts'],
  outfile: 'aggregator.mjs',
  write: false,
  banner,
})
const [{contents}] = outputFiles
const sha256 = createHash('sha256').update(contents).digest('hex')
mkdirSync(folder, {recursive: true})
writeFileSync(join(folder, 'aggregator.mjs'), contents)
// CloudFormation puts inline code into a file named `index`, so the template's handler `index.handler` fits both.
writeFileSync(join(folder, 'aggregator.zip'), zipOf('index.mjs', contents))
writeFileSync(join(folder, 'aggregator.json'), `${JSON.stringify({sha256, bytes: contents.length}, null, 2)}\n`)
const modules = Object.fromEntries(
  Object.entries(metafile.outputs).map(([file, {inputs}]) => [file, Object.keys(inputs)]),
)
writeFileSync(join(folder, 'contents.json'), JSON.stringify(modules))
console.log(`aggregator.mjs: ${Math.round(contents.length / 1024)} KiB, sha256 ${sha256.slice(0, 12)}`)
