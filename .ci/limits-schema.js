// Writes templates/limits.schema.json, with which editors check manifests, from the schema that zael checks them with.
// Run it with --import tsx; with --check only says whether the committed file is current. Another file can be given as an argument.
import {existsSync, readFileSync, writeFileSync} from 'node:fs'
import process from 'node:process'
import {fileURLToPath} from 'node:url'
import {z} from 'zod'
import {manifestSchema} from '../src/lib/manifest/schema.js'

const args = process.argv.slice(2)
const file =
  args.find(arg => !arg.startsWith('--')) ?? fileURLToPath(new URL('../templates/limits.schema.json', import.meta.url))
// Editors know draft 7 best.
const schema = z.toJSONSchema(manifestSchema, {
  io: 'input',
  target: 'draft-7',
  override: ({jsonSchema}) => {
    delete jsonSchema.id
  },
})
const fresh = `${JSON.stringify(schema, plainReference, 2)}\n`
const isCurrent = existsSync(file) && readFileSync(file, 'utf8') === fresh

if (!isCurrent && args.includes('--check')) {
  console.error(`${file} does not match the schema of manifests: run "npm run build" and commit it`)
  process.exit(1)
}
if (!isCurrent) {
  writeFileSync(file, fresh)
  console.log('templates/limits.schema.json: written')
}

/** Draft 7 ignores keys beside `$ref`, so zod wraps references, also where nothing is beside them. */
function plainReference(_key, part) {
  const isWrapped = part?.allOf?.length === 1 && Object.keys(part).length === 1
  return isWrapped ? part.allOf[0] : part
}
