import {z} from 'zod'
import {accessChangeSchema, accessSchema, bucketSyncSchema, type ResultOf, scopeSchema} from '../output/results.js'

const switchSchema = z.strictObject({
  scope: scopeSchema,
  access: accessChangeSchema.describe('Null: the next less specific level decides'),
  buckets: bucketSyncSchema.describe('Live buckets, each stamped with the switch that applies to it'),
  exceptions: z
    .strictObject({
      found: z.array(
        z.strictObject({
          scope: scopeSchema,
          access: accessSchema,
          command: z
            .string()
            .nullable()
            .describe('Does the same there; null where that would open what was switched for one entity alone'),
        }),
      ),
      looked: z.int().describe('Configurations of entities that were looked at'),
      complete: z.boolean().describe('Whether these were all; otherwise there may be more exceptions'),
    })
    .describe('More specific switches that say something else: they count there'),
})
export type SwitchResult = ResultOf<typeof switchSchema>

const titled = (command: string) => z.strictObject(switchSchema.shape).meta({title: `zael ${command}`})

export const entityBypassResult = titled('entity bypass')
export const entityDisableResult = titled('entity disable')
export const entityEnableResult = titled('entity enable')
export const entityClearResult = titled('entity clear')
export const resourceBypassResult = titled('resource bypass')
export const resourceDisableResult = titled('resource disable')
export const resourceEnableResult = titled('resource enable')
export const resourceClearResult = titled('resource clear')
