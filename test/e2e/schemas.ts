import {readFileSync} from 'node:fs'
import {Ajv2020, type ValidateFunction} from 'ajv/dist/2020.js'
import {ROOT} from './zael.js'

// Most validators are used once or twice: optimizing their code costs more than it saves.
const ajv = new Ajv2020({allErrors: true, strict: true, code: {optimize: false}})
let schemas: Record<string, object> | undefined
const validators = new Map<string, ValidateFunction>()

/** The published schemas of results, by command. */
export function resultSchemas(): Record<string, object> {
  schemas ??= JSON.parse(readFileSync(`${ROOT}/dist/schemas.json`, 'utf8')) as Record<string, object>
  return schemas
}

/** Keys of a result that its schema does not allow, and missing ones. Empty if it matches. */
export function schemaProblems(command: string, result: unknown): string[] {
  const validate = validators.get(command) ?? ajv.compile(resultSchemas()[command] ?? false)
  validators.set(command, validate)
  if (validate(result)) return []
  return (validate.errors ?? []).map(({instancePath, message}) => `${instancePath || '/'} ${message}`)
}
