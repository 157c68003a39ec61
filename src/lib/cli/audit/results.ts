import {z} from 'zod'
import type {ResultOf} from '../output/results.js'

const auditEventSchema = z
  .strictObject({
    id: z.string(),
    time: z.string().describe('UTC.'),
    action: z.string(),
    entity: z.string().describe('An entity, "$SYSTEM" or "$RESOURCE:name".'),
    resource: z.string().nullable(),
    principal: z.string().nullable().describe('Who did it.'),
    details: z.record(z.string(), z.unknown()),
    expiresAt: z.string().nullable(),
  })
  .meta({id: 'AuditEvent'})
export type AuditEventJson = ResultOf<typeof auditEventSchema>

export const auditListResult = z
  .strictObject({
    events: z.array(auditEventSchema).describe('Newest first.'),
    next: z.string().nullable().describe('Cursor of the next page.'),
  })
  .meta({title: 'zael audit list'})
export type AuditListResult = ResultOf<typeof auditListResult>

export const auditShowResult = z.strictObject(auditEventSchema.shape).meta({title: 'zael audit show'})
export type AuditShowResult = ResultOf<typeof auditShowResult>
