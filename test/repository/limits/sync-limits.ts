import {type SyncOptions, type SyncResult, syncBuckets} from '../../../src/lib/repository/limits/bucket-sync.js'
import {limitSync} from '../../../src/lib/repository/limits/limit-sync.js'
import type {NamespaceTable} from '../../../src/lib/repository/table/table.js'
import type {ConfigScope} from '../../../src/lib/schema/config-record.js'

export const syncLimits = (table: NamespaceTable, scope: ConfigScope, options?: SyncOptions): Promise<SyncResult> =>
  syncBuckets(table, scope, [limitSync], options)
