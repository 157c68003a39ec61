import {z} from 'zod'
import {itemCountsSchema} from './shared.js'

export const namespaceStatusSchema = z.enum(['active', 'deleted', 'purging']).meta({id: 'NamespaceStatus'})

export const namespaceSchema = z
  .strictObject({
    name: z.string(),
    id: z.string().describe('Opaque; the first part of every key of the namespace'),
    status: namespaceStatusSchema,
    halfDeleted: z.boolean().describe('Active by id while its name leads elsewhere: a client died while deleting it'),
    createdAt: z.string().describe('UTC, ISO 8601'),
    deletedAt: z.string().nullable().describe('UTC, ISO 8601'),
  })
  .meta({id: 'Namespace'})

/** zael namespace create. */
export const namespaceCreateResult = z
  .strictObject({
    namespaces: z.array(
      z.strictObject({
        name: z.string(),
        id: z.string().describe('Opaque; the first part of every key of the namespace'),
        status: namespaceStatusSchema,
        halfDeleted: z
          .boolean()
          .describe('Active by id while its name leads elsewhere: a client died while deleting it'),
        createdAt: z.string().describe('UTC, ISO 8601'),
        deletedAt: z.string().nullable().describe('UTC, ISO 8601'),
        created: z.boolean().describe('False when the name existed already'),
      }),
    ),
  })
  .meta({title: 'zael namespace create'})
export type NamespaceCreateResult = z.infer<typeof namespaceCreateResult>

/** zael namespace delete. */
export const namespaceDeleteResult = z
  .strictObject({
    name: z.string(),
    id: z.string().describe('Opaque; the first part of every key of the namespace'),
    status: namespaceStatusSchema,
    halfDeleted: z.boolean().describe('Active by id while its name leads elsewhere: a client died while deleting it'),
    createdAt: z.string().describe('UTC, ISO 8601'),
    deletedAt: z.string().nullable().describe('UTC, ISO 8601'),
  })
  .meta({title: 'zael namespace delete'})
export type NamespaceDeleteResult = z.infer<typeof namespaceDeleteResult>

/** zael namespace list. */
export const namespaceListResult = z
  .strictObject({
    namespaces: z.array(namespaceSchema),
    next: z.null().describe('The list is complete'),
  })
  .meta({title: 'zael namespace list'})
export type NamespaceListResult = z.infer<typeof namespaceListResult>

/** zael namespace orphans. */
export const namespaceOrphansResult = z
  .strictObject({
    namespaces: z.array(namespaceSchema),
    next: z.null().describe('The list is complete'),
  })
  .meta({title: 'zael namespace orphans'})
export type NamespaceOrphansResult = z.infer<typeof namespaceOrphansResult>

/** zael namespace purge. */
export const namespacePurgeResult = z
  .strictObject({
    name: z.string(),
    id: z.string(),
    dryRun: z.boolean(),
    counts: itemCountsSchema,
  })
  .meta({title: 'zael namespace purge'})
export type NamespacePurgeResult = z.infer<typeof namespacePurgeResult>

/** zael namespace recover. */
export const namespaceRecoverResult = z
  .strictObject({
    name: z.string(),
    id: z.string().describe('Opaque; the first part of every key of the namespace'),
    status: namespaceStatusSchema,
    halfDeleted: z.boolean().describe('Active by id while its name leads elsewhere: a client died while deleting it'),
    createdAt: z.string().describe('UTC, ISO 8601'),
    deletedAt: z.string().nullable().describe('UTC, ISO 8601'),
  })
  .meta({title: 'zael namespace recover'})
export type NamespaceRecoverResult = z.infer<typeof namespaceRecoverResult>

/** zael namespace show. */
export const namespaceShowResult = z
  .strictObject({
    name: z.string(),
    id: z.string().describe('Opaque; the first part of every key of the namespace'),
    status: namespaceStatusSchema,
    halfDeleted: z.boolean().describe('Active by id while its name leads elsewhere: a client died while deleting it'),
    createdAt: z.string().describe('UTC, ISO 8601'),
    deletedAt: z.string().nullable().describe('UTC, ISO 8601'),
    counts: itemCountsSchema
      .describe('Items by kind')
      .nullable()
      .describe('As the index over the namespace knows them; null without --count'),
  })
  .meta({title: 'zael namespace show'})
export type NamespaceShowResult = z.infer<typeof namespaceShowResult>
