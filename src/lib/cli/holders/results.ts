import * as z from 'zod'
import {strictObject} from 'zod'
import {count, type ResultOf, textOrNull} from '../output/results.js'

const holderShape = {
  id: z.string(),
  host: textOrNull,
  pid: z.int().nullable(),
  startedAt: textOrNull.describe('UTC, ISO 8601'),
  beatAt: textOrNull.describe('Last beat by the clock of its process, or when it was declared dead; UTC, ISO 8601'),
  isDead: z.boolean().describe('Declared dead: its slots are returned'),
}

export const inFlightSchema = z
  .array(
    strictObject({
      limit: z.string(),
      capacity: count,
      free: z.int().describe('Negative after the capacity was lowered'),
      inUse: count,
      holders: z
        .array(
          strictObject({...holderShape, slots: z.int().min(1)})
            .describe('Host, pid and times are null if the process has no record')
            .meta({id: 'SlotHolder'}),
        )
        .describe('Most slots first'),
    }).meta({id: 'InFlightLevel'}),
  )
  .describe('In-flight limits, in slots')
export type InFlightJson = ResultOf<typeof inFlightSchema>
