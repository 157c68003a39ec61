import * as z from 'zod'
import {strictObject} from 'zod'
import {FINDING_KINDS, type FindingKind} from '../../insight/verify/finding.js'
import {count, type ResultOf, textOrNull} from '../output/results.js'

const findingSchema = strictObject({
  kind: z
    .enum(Object.keys(FINDING_KINDS) as FindingKind[])
    .describe('Kind of problem; docs/verifying.md explains each'),
  key: z.string().describe('Key of the record'),
  namespace: textOrNull.describe('Id of its namespace'),
  entity: textOrNull,
  resource: textOrNull,
  reason: z.string().describe('Which records disagree, and by how much'),
  since: textOrNull.describe('Last write of the records, if known'),
  repairable: z.boolean().describe('Whether --fix can repair it'),
  outcome: z
    .enum(['found', 'repaired', 'changed', 'undecided'])
    .describe('Outcome of --fix; `changed`: the record changed since it was read'),
}).meta({id: 'VerifyFinding'})
export type VerifyFindingJson = ResultOf<typeof findingSchema>

export const verifyResult = strictObject({
  stack: z.string(),
  entity: textOrNull,
  items: count.describe('Items read'),
  oldItems: count.describe('Items of an older layout; not checked'),
  clean: z.boolean().describe('Whether no findings remain after repairs'),
  findings: z.array(findingSchema).describe('At most 10,000'),
  count: count.describe('All findings'),
  repaired: count,
}).meta({title: 'zael verify'})
export type VerifyResult = ResultOf<typeof verifyResult>
