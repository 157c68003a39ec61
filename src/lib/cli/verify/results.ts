import {z} from 'zod'
import type {ResultOf} from '../output/results.js'

const findingSchema = z
  .strictObject({
    kind: z
      .enum([
        'usage',
        'refill',
        'remainder',
        'limits',
        'limitless',
        'shards',
        'ghost',
        'parent',
        'index',
        'boost',
        'registry',
        'namespace',
        'orphan',
        'malformed',
        'unknown',
      ])
      .describe('What is wrong; docs/verifying.md explains each'),
    key: z.string().describe('Key of the record'),
    namespace: z.string().nullable().describe('Id of its namespace'),
    entity: z.string().nullable(),
    resource: z.string().nullable(),
    reason: z.string().describe('Which records disagree, and by how much'),
    since: z.string().nullable().describe('Since when, as far as the records tell'),
    repairable: z.boolean().describe('Whether --fix can repair it'),
    outcome: z
      .enum(['found', 'repaired', 'changed', 'undecided'])
      .describe('What --fix did; `changed`: the record was written to meanwhile'),
  })
  .meta({id: 'VerifyFinding'})
export type VerifyFindingJson = ResultOf<typeof findingSchema>

export const verifyResult = z
  .strictObject({
    stack: z.string(),
    entity: z.string().nullable(),
    items: z.int().min(0).describe('Items read'),
    oldItems: z.int().min(0).describe('Items of an older layout; they are not checked'),
    clean: z.boolean().describe('Whether nothing is wrong, after repairs'),
    findings: z.array(findingSchema).describe('At most 10,000'),
    count: z.int().min(0).describe('All findings'),
    repaired: z.int().min(0),
  })
  .meta({title: 'zael verify'})
export type VerifyResult = ResultOf<typeof verifyResult>
