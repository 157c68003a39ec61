import * as z from 'zod'
import {strictObject} from 'zod'
import {CHARGED_LEVELS} from '../../schema/namespace-record.js'
import {itemCountsSchema, type ResultOf, textOrNull} from '../output/results.js'

const namespaceStatusSchema = z.enum(['active', 'deleted', 'purging']).meta({id: 'NamespaceStatus'})

const namespaceSchema = strictObject({
  name: z.string(),
  id: z.string().describe('Opaque; the first part of every key of the namespace'),
  status: namespaceStatusSchema,
  halfDeleted: z.boolean().describe('Active by id, but not by name: a client died while deleting it'),
  createdAt: z.string().describe('UTC, ISO 8601'),
  deletedAt: textOrNull.describe('UTC, ISO 8601'),
  levels: z.enum(CHARGED_LEVELS).describe('Parents that requests charge: the direct one, or all that cascade'),
}).meta({id: 'Namespace'})
export type NamespaceJson = ResultOf<typeof namespaceSchema>

export const namespaceCreateResult = strictObject({
  namespaces: z.array(
    namespaceSchema.extend({created: z.boolean().describe('False when the namespace already existed')}),
  ),
}).meta({title: 'zael namespace create'})
export type NamespaceCreateResult = ResultOf<typeof namespaceCreateResult>

export const namespaceDeleteResult = strictObject(namespaceSchema.shape).meta({title: 'zael namespace delete'})
export type NamespaceDeleteResult = ResultOf<typeof namespaceDeleteResult>

export const namespaceListResult = strictObject({
  namespaces: z.array(namespaceSchema),
  next: z.null().describe('The list is complete'),
}).meta({title: 'zael namespace list'})
export type NamespaceListResult = ResultOf<typeof namespaceListResult>

export const namespaceOrphansResult = strictObject({
  namespaces: z.array(
    namespaceSchema.extend({
      registered: z
        .boolean()
        .describe('False: only records of this id exist and the name is empty (with --unregistered)'),
    }),
  ),
  next: z.null().describe('The list is complete'),
}).meta({title: 'zael namespace orphans'})
export type NamespaceOrphansResult = ResultOf<typeof namespaceOrphansResult>

export const namespacePurgeResult = strictObject({
  name: z.string(),
  id: z.string(),
  dryRun: z.boolean(),
  counts: itemCountsSchema,
}).meta({title: 'zael namespace purge'})
export type NamespacePurgeResult = ResultOf<typeof namespacePurgeResult>

export const namespaceRecoverResult = strictObject(namespaceSchema.shape).meta({title: 'zael namespace recover'})
export type NamespaceRecoverResult = ResultOf<typeof namespaceRecoverResult>

export const namespaceSetResult = strictObject(namespaceSchema.shape).meta({title: 'zael namespace set'})
export type NamespaceSetResult = ResultOf<typeof namespaceSetResult>

export const namespaceShowResult = namespaceSchema
  .extend({
    counts: itemCountsSchema
      .describe('Items by kind')
      .nullable()
      .describe('Counts from the index of the namespace; null without --count'),
  })
  .meta({title: 'zael namespace show'})
export type NamespaceShowResult = ResultOf<typeof namespaceShowResult>

const auditEventSchema = strictObject({
  id: z.string(),
  time: z.string().describe('UTC'),
  action: z.string(),
  entity: z.string().describe('An entity, "$SYSTEM" or "$RESOURCE:name"'),
  resource: textOrNull,
  principal: textOrNull.describe('Who made the change'),
  details: z.record(z.string(), z.unknown()),
  expiresAt: textOrNull,
}).meta({id: 'AuditEvent'})
export type AuditEventJson = ResultOf<typeof auditEventSchema>

export const auditListResult = strictObject({
  events: z.array(auditEventSchema).describe('Newest first'),
  next: textOrNull.describe('Cursor of the next page'),
}).meta({title: 'zael audit list'})
export type AuditListResult = ResultOf<typeof auditListResult>

export const auditShowResult = strictObject(auditEventSchema.shape).meta({title: 'zael audit show'})
export type AuditShowResult = ResultOf<typeof auditShowResult>
