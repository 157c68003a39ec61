// Bundles the aggregator for AWS Lambda into one file, with everything it needs: a deployment downloads nothing.
// Writes aggregator.mjs, its archive aggregator.zip and aggregator.json (hash and size) to dist/lambda, or to the folder given.
import {createHash} from 'node:crypto'
import {mkdirSync, writeFileSync} from 'node:fs'
import {join} from 'node:path'
import process from 'node:process'
import {fileURLToPath} from 'node:url'
import {build} from 'esbuild'
import {zipOf} from './zip.js'

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = process.argv[2] ?? join(root, 'dist', 'lambda')

const {outputFiles} = await build({
  absWorkingDir: root,
  entryPoints: ['src/lib/aggregator/handler.ts'],
  outfile: 'aggregator.mjs',
  write: false,
  bundle: true,
  platform: 'node',
  target: 'node20',
  format: 'esm',
  // The SDK's CommonJS builds have no default that import() can unpack.
  mainFields: ['module', 'main'],
  // The CommonJS modules among them load Node's own modules by require().
  banner: {
    js: "import {createRequire as __createRequire} from 'node:module'; const require = __createRequire(import.meta.url);",
  },
  minify: true,
  // Errors are recognised by the name of their class.
  keepNames: true,
  legalComments: 'none',
  charset: 'utf8',
  logLevel: 'warning',
})
const [{contents}] = outputFiles
const sha256 = createHash('sha256').update(contents).digest('hex')
mkdirSync(folder, {recursive: true})
writeFileSync(join(folder, 'aggregator.mjs'), contents)
// CloudFormation puts inline code into a file named `index`, so the template's handler `index.handler` fits both.
writeFileSync(join(folder, 'aggregator.zip'), zipOf('index.mjs', contents))
writeFileSync(join(folder, 'aggregator.json'), `${JSON.stringify({sha256, bytes: contents.length}, null, 2)}\n`)
console.log(`aggregator.mjs: ${Math.round(contents.length / 1024)} KiB, sha256 ${sha256.slice(0, 12)}`)
