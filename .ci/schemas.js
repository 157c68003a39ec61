// Writes dist/schemas.json, the JSON Schema of every command's result, from the zod schemas. Run it with --import tsx.
import {writeFileSync} from 'node:fs'
import {z} from 'zod'
import {RESULTS} from '../src/lib/results.js'

const schemas = Object.entries(RESULTS).map(([command, schema]) => [command, jsonSchema(schema)])
writeFileSync(new URL('../dist/schemas.json', import.meta.url), `${JSON.stringify(Object.fromEntries(schemas))}\n`)

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
