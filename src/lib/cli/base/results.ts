import {strictObject, z} from 'zod'
import {listOf, type ResultOf, textOrNull} from '../output/results.js'

export const errorResult = strictObject({
  error: strictObject({
    code: z.string().describe('Stable, dotted.'),
    kind: z.enum(['failed', 'usage', 'notFound', 'access', 'conflict', 'checkSaidNo', 'interrupted', 'terminated']),
    message: z.string(),
    hint: textOrNull.describe('What to do next.'),
    details: z.record(z.string(), z.unknown()),
  }),
}).meta({title: 'What any command prints with --json when it fails'})
export type ErrorResult = ResultOf<typeof errorResult>

export const configShowResult = strictObject({
  settings: listOf({
    key: z.enum(['stack', 'namespace', 'region', 'profile', 'endpointUrl', 'output']),
    value: textOrNull,
    source: z.enum(['flag', 'environment', 'project', 'user', 'aws', 'default']),
    from: textOrNull.describe('The flag, the variable, or the file with its line.'),
  }),
  files: strictObject({
    project: textOrNull,
    user: textOrNull,
  }),
}).meta({title: 'zael config show'})
export type ConfigShowResult = ResultOf<typeof configShowResult>
