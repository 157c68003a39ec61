import * as z from 'zod'
import * as acquire from './cli/acquire/results.js'
import * as aggregator from './cli/aggregator/results.js'
import * as bucket from './cli/bucket/results.js'
import * as cost from './cli/cost/results.js'
import * as entity from './cli/entity/results.js'
import * as help from './cli/help/results.js'
import * as holders from './cli/holders/results.js'
import * as limits from './cli/limits/results.js'
import * as migrate from './cli/migrate/results.js'
import * as namespace from './cli/namespace/results.js'
import * as base from './cli/output/results.js'
import * as run from './cli/run/results.js'
import * as stack from './cli/stack/results.js'
import * as usage from './cli/usage/results.js'
import * as verify from './cli/verify/results.js'
import * as watch from './live/results.js'

const ofLimits = [entity, limits, bucket, holders, usage, acquire, namespace, run]
const ofStacks = [stack, aggregator, migrate, verify, cost, watch]

/** Schemas of `--json` output by command; `error` is the output of any command that fails. */
export const RESULTS: {readonly error: z.ZodType; readonly [command: string]: z.ZodType} = {
  ...Object.fromEntries([...ofLimits, ...ofStacks, base, help].flatMap(titledSchemas)),
  error: withWarnings(base.errorResult),
}

/** The title of a command's result is the command: `zael limits set`. */
function titledSchemas(file: object): [command: string, schema: z.ZodType][] {
  return Object.values(file).flatMap(part => {
    const title = part instanceof z.ZodType ? part.meta()?.title : undefined
    return title?.startsWith('zael ') ? [[title.slice('zael '.length), withWarnings(part)]] : []
  })
}

/** Any command may warn; the base command adds the key. */
function withWarnings(schema: z.ZodType): z.ZodType {
  if (schema instanceof z.ZodUnion)
    return z.union(schema.options.map(each => withWarnings(each as z.ZodType))).meta(schema.meta() ?? {})
  const warnings = z.array(z.string()).describe('Warnings; absent when there are none').optional()
  return schema instanceof z.ZodObject ? schema.extend({warnings}).meta(schema.meta() ?? {}) : schema
}
