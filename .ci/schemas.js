// Writes dist/schemas/*.json, the JSON Schema of every command's result, from the zod schemas (dist has to be built).
import {mkdirSync, writeFileSync} from 'node:fs'
import {fileURLToPath} from 'node:url'
import {z} from 'zod'
import {RESULTS} from '../dist/lib/results.js'

const folder = fileURLToPath(new URL('../dist/schemas/', import.meta.url))
mkdirSync(folder, {recursive: true})
for (const [command, schema] of Object.entries(RESULTS)) {
  writeFileSync(`${folder}${command.replaceAll(' ', '.')}.json`, `${JSON.stringify(jsonSchema(schema), null, 2)}\n`)
}

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
