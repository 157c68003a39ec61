// Writes docs/schemas/*.json from the result schemas of the commands (dist has to be built); with --check only says whether the
// committed files are current. Another folder can be given as an argument.
import {readdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs'
import {join} from 'node:path'
import process from 'node:process'
import {fileURLToPath} from 'node:url'
import {z} from 'zod'
import {RESULTS} from '../dist/lib/results.js'

const args = process.argv.slice(2)
const folder = args.find(arg => !arg.startsWith('--')) ?? fileURLToPath(new URL('../docs/schemas', import.meta.url))
const fresh = new Map(
  Object.entries(RESULTS).map(([command, schema]) => [
    `${command.replaceAll(' ', '.')}.json`,
    `${JSON.stringify(jsonSchema(schema), null, 2)}\n`,
  ]),
)
const committed = new Set(readdirSync(folder))
const stale = [...new Set([...fresh.keys(), ...committed])].filter(name => fresh.get(name) !== read(name)).sort()

if (stale.length > 0 && args.includes('--check')) {
  console.error(
    `docs/schemas does not match the results of the commands (${stale.join(', ')}): run "npm run build" and commit it`,
  )
  process.exit(1)
}
for (const name of stale) {
  const text = fresh.get(name)
  if (text === undefined) rmSync(join(folder, name))
  else writeFileSync(join(folder, name), text)
}
if (stale.length > 0) console.log(`docs/schemas: ${stale.length} of ${fresh.size} written`)

/** Shared parts appear once, under `$defs`. Bounds of safe integers are left out: they are true of every JSON number here. */
function jsonSchema(schema) {
  return z.toJSONSchema(schema, {
    override: ({jsonSchema: part}) => {
      if (part.minimum === Number.MIN_SAFE_INTEGER) delete part.minimum
      if (part.maximum === Number.MAX_SAFE_INTEGER) delete part.maximum
      delete part.id
    },
  })
}

function read(name) {
  return committed.has(name) ? readFileSync(join(folder, name), 'utf8') : undefined
}
