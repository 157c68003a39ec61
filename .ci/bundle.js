// Bundles the aggregator for AWS Lambda, without the AWS clients: a deployment packs it with dist/chunks/aws-sdk.js, which the
// command line uses too, and downloads nothing. Writes aggregator.mjs to dist/lambda, or to the folder given.
import {createHash} from 'node:crypto'
import {mkdirSync, writeFileSync} from 'node:fs'
import {join} from 'node:path'
import process from 'node:process'
import {build} from 'esbuild'
import {inOwnFile, options, root} from './bundle-options.js'

const folder = process.argv[2] ?? join(root, 'dist', 'lambda')

const {outputFiles, metafile} = await build({
  ...options,
  entryPoints: ['src/lib/aggregator/handler.ts'],
  outfile: 'aggregator.mjs',
  write: false,
  plugins: [inOwnFile(/^@aws-sdk\/client-/, './aws-sdk.mjs')],
})
const [{contents}] = outputFiles
const sha256 = createHash('sha256').update(contents).digest('hex')
mkdirSync(folder, {recursive: true})
writeFileSync(join(folder, 'aggregator.mjs'), contents)
const modules = Object.fromEntries(
  Object.entries(metafile.outputs).map(([file, {inputs}]) => [file, Object.keys(inputs)]),
)
writeFileSync(join(folder, 'contents.json'), JSON.stringify(modules))
console.log(`aggregator.mjs: ${Math.round(contents.length / 1024)} KiB, sha256 ${sha256.slice(0, 12)}`)
