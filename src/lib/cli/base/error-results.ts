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
