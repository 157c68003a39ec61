import * as z from 'zod'
import {strictObject} from 'zod'
import {type ResultOf, textOrNull} from '../output/results.js'

const amounts = z.record(z.string(), z.number())

const runShape = {
  id: z.string(),
  name: textOrNull,
  entity: z.string().describe('Whose tokens it has; of a sub-run, the entity of its parent: zael.run:ID'),
  resource: z.string(),
  startedAt: z.string().describe('UTC, ISO 8601'),
  endsAt: z.string().describe('When its rest comes back at the latest, UTC, ISO 8601'),
  endedAt: textOrNull.describe('When it ended, UTC, ISO 8601; null while it is open'),
  granted: amounts.describe('Tokens by limit; money in millionths'),
  spent: amounts.describe('Includes the amounts of open sub-runs'),
  left: amounts.describe('spent + left + returned + lapsed = granted'),
  returned: amounts.describe('Returned to the entity; negative: charged, because the run spent more than it had'),
  lapsed: amounts.describe(
    'Not returned: the period of the quota has ended, or its bucket was deleted, reset or bypassed',
  ),
  ancestors: z
    .array(strictObject({entity: z.string(), returned: amounts, lapsed: amounts}).meta({id: 'RunAncestor'}))
    .describe('Ancestors of the entity that were charged too; empty while the run is open'),
  subRuns: z.array(z.string()).describe('Ids of open runs that took their amounts from this one'),
}

const runSchema = strictObject(runShape).meta({id: 'Run'})
export type RunJson = ResultOf<typeof runSchema>

export const runListResult = strictObject({
  runs: z.array(runSchema).describe('By their end'),
  next: textOrNull.describe('Cursor of the next page.'),
}).meta({title: 'zael run list'})
export type RunListResult = ResultOf<typeof runListResult>

export const runShowResult = strictObject(runShape).meta({title: 'zael run show'})

export const runEndResult = strictObject({
  ...runShape,
  wasEnded: z.boolean().describe('It had ended before; the command changed nothing'),
}).meta({title: 'zael run end'})
export type RunEndResult = ResultOf<typeof runEndResult>
