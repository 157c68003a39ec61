import {ZaelError} from '../../core/errors.js'
import type {Limit} from '../../core/limits/limit.js'
import {pause} from '../../dynamo/retry.js'
import {Audit, type Principal, storedAuditRetention} from '../../repository/audit/audit.js'
import {nameOf} from '../../repository/limits/checks.js'
import {registerConfig, setEvent, unchangedCheck, updateConfig} from '../../repository/limits/config-writes.js'
import {scopesBelow} from '../../repository/limits/inherited.js'
import type {Key} from '../../schema/attribute-value.js'
import {type ConfigRecord, type ConfigScope, configKey, decodeConfig} from '../../schema/config-record.js'
import {keyId} from '../../schema/keys.js'
import {transactConditional} from '../records/conditional.js'
import type {MigrationContext} from '../records/finding.js'
import {readItems} from '../records/reads.js'
import {definesLimits} from './find.js'

const ATTEMPTS = 20

/**
 * Configures limits at a scope where none apply, neither there nor below: all of it is read and checked in the transaction
 * that writes, so what somebody else configures meanwhile stays in force. Recorded in the audit like any other change.
 * Resolves to whether it was written.
 */
export async function configureWhereNone(
  context: MigrationContext,
  {
    namespace,
    scope,
    limits,
  }: {readonly namespace: string; readonly scope: ConfigScope; readonly limits: readonly Limit[]},
  principal: Principal | undefined,
): Promise<boolean> {
  const table = {...context.table, namespace}
  const audit = new Audit(table, {principal, retentionDays: storedAuditRetention(table)})
  const scopes = [scope, ...scopesBelow(scope)]
  const wanted = scopes.map(each => configKey(namespace, each))
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const items = await readItems(context, wanted)
    if (wanted.some(key => definesLimits(items.get(keyId(key))))) return false
    const [own, ...below] = wanted as [Key, ...Key[]]
    const item = items.get(keyId(own))
    const before = item && decodeConfig(item, () => [])
    const settings = {onUnavailable: undefined, auditRetentionDays: undefined}
    const record: ConfigRecord = {...settings, ...before, namespace, scope, limits}
    const isWritten = await transactConditional(context, [
      updateConfig(table, item, record, () => true),
      ...registerConfig(table, scope, item),
      ...below.map(key => unchangedCheck(table, key, items.get(keyId(key)))),
      await audit.put(setEvent(record, before)),
    ])
    if (isWritten) return true
    await pause(attempt, table.backoff, context.signal)
  }
  throw new ZaelError('conflict', 'migrate.contended', `Others keep changing the limits of ${nameOf(scope)}.`, {
    hint: 'Run `zael migrate run --limits-from-buckets` again; it resumes where this run stopped.',
  })
}
