import {z} from 'zod'
import type {ResultOf} from '../output/results.js'

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
