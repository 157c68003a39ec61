import {z} from 'zod'
import type {ResultOf} from '../output/results.js'

export const errorResult = z
  .strictObject({
    error: z.strictObject({
      code: z.string().describe('Stable, dotted.'),
      kind: z.enum(['failed', 'usage', 'notFound', 'access', 'conflict', 'checkSaidNo', 'interrupted', 'terminated']),
      message: z.string(),
      hint: z.string().nullable().describe('What to do next.'),
      details: z.record(z.string(), z.unknown()),
    }),
  })
  .meta({title: 'What any command prints with --json when it fails'})
export type ErrorResult = ResultOf<typeof errorResult>

export const configShowResult = z
  .strictObject({
    settings: z.array(
      z.strictObject({
        key: z.enum(['stack', 'namespace', 'region', 'profile', 'endpointUrl', 'output']),
        value: z.string().nullable(),
        source: z.enum(['flag', 'environment', 'project', 'user', 'aws', 'default']),
        from: z.string().nullable().describe('The flag, the variable, or the file with its line.'),
      }),
    ),
    files: z.strictObject({
      project: z.string().nullable(),
      user: z.string().nullable(),
    }),
  })
  .meta({title: 'zael config show'})
export type ConfigShowResult = ResultOf<typeof configShowResult>
