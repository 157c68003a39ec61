import {z} from 'zod'
import {bucketSyncSchema, cascadePolicyChangeSchema, type ResultOf, scopeSchema} from '../output/results.js'

const cascadeSchema = z.strictObject({
  scope: scopeSchema,
  cascade: cascadePolicyChangeSchema,
  buckets: bucketSyncSchema.describe('Live buckets, each stamped with the policy that applies to it'),
})
export type CascadeResult = ResultOf<typeof cascadeSchema>

export const entityCascadeResult = z.strictObject(cascadeSchema.shape).meta({title: 'zael entity cascade'})
export const resourceCascadeResult = z.strictObject(cascadeSchema.shape).meta({title: 'zael resource cascade'})
