import {ZaelError} from '../../core/errors.js'
import {pause} from '../../dynamo/retry.js'
import {nameOf} from '../../repository/limits/checks.js'
import {registerConfig, setEvent, unchangedCheck, updateConfig} from '../../repository/limits/config-writes.js'
import {scopesBelow} from '../../repository/limits/merge.js'
import {Audit, type Principal, storedAuditRetention} from '../../repository/table/audit.js'
import type {Key} from '../../schema/attribute-value.js'
import {type ConfigRecord, configKey, decodeConfig} from '../../schema/config-record.js'
import {keyId} from '../../schema/keys.js'
import {PLACEHOLDER_NAMESPACE} from '../../schema/legacy-key.js'
import {definesLimits, LimitlessFinder} from '../limitless/find.js'
import {
  type FoundBucket,
  isCoveredBy,
  type Limitless,
  type LimitlessResource,
  LimitlessTally,
} from '../limitless/tally.js'
import {classifyPage} from '../records/classified-page.js'
import {readItems, transactConditional} from '../records/conditional.js'
import type {MigrationContext} from '../records/finding.js'
import type {RunContext} from './pass.js'
import {tablePages} from './scan.js'
import {countStep, type MigrationStep, sortKeysLeftOut} from './steps.js'

export interface WriteLimitsOptions {
  /** Limits that the user confirmed. Default: the buckets are counted first. */
  readonly agreed?: Limitless | undefined
  readonly principal?: Principal | undefined
}

export interface LimitsWritten {
  readonly resources: number
  readonly entities: number
}

/** Single entities first, then whole resources: after a crash, the next run finds the same common limits. */
export async function writeLimitsFromBuckets(
  step: MigrationStep,
  run: RunContext,
  {agreed, principal}: WriteLimitsOptions,
): Promise<LimitsWritten> {
  const {resources} = agreed ?? (await countBuckets(step, run))
  const context = await run.open()
  const rows = new Map(resources.map(row => [rowId(namespaceOf(context, row), row.resource), row]))
  const written = {resources: 0, entities: 0}
  const hasExceptions = resources.some(({exceptions}) => exceptions > 0)
  if (hasExceptions) {
    await eachPage(step, run, 2, async (pageContext, buckets) => {
      let entities = 0
      for (const {namespace, entity, resource, limits} of buckets) {
        const row = rows.get(rowId(namespace, resource))
        if (!row || !limits || isCoveredBy(limits, row.common)) continue
        const scope = {level: 'entity', entity, resource} as const
        if (await configureWhereNone(pageContext, {namespace, scope, limits}, principal)) entities++
      }
      written.entities += entities
      return entities
    })
  }
  for (const row of rows.values()) {
    const {resource, common: limits} = row
    const namespace = namespaceOf(context, row)
    if (!limits || namespace === PLACEHOLDER_NAMESPACE) continue
    const scope = {level: 'resource', resource} as const
    if (await configureWhereNone(context, {namespace, scope, limits}, principal)) {
      written.resources++
      await countStep(run.lease, 'limits', {written: 1})
    }
  }
  return written
}

const rowId = (namespace: string, resource: string): string => JSON.stringify([namespace, resource])

/** A summary from before `default` was registered does not know its id. */
const namespaceOf = ({defaultNamespace}: MigrationContext, {namespace}: LimitlessResource): string =>
  namespace === PLACEHOLDER_NAMESPACE ? (defaultNamespace ?? namespace) : namespace

async function countBuckets(step: MigrationStep, run: RunContext): Promise<Limitless> {
  const tally = new LimitlessTally()
  await eachPage(step, run, 1, async (_, buckets) => {
    for (const bucket of buckets) tally.add(bucket)
    return 0
  })
  return tally.limitless
}

/** Starts at the beginning, also after a crash. `work` resolves to the number of items written. */
async function eachPage(
  step: MigrationStep,
  {open, lease, onProgress}: RunContext,
  pass: number,
  work: (context: MigrationContext, buckets: readonly FoundBucket[]) => Promise<number>,
): Promise<void> {
  await lease.save({pass})
  const context = await open()
  const finder = new LimitlessFinder({oldBuckets: true})
  let scanned = 0
  for await (const read of tablePages(context, {leaveOut: sortKeysLeftOut(step)})) {
    const found = await finder.find(context, classifyPage(context, read.items))
    const registered = found.filter(({namespace}) => namespace !== PLACEHOLDER_NAMESPACE)
    const written = await work(context, registered)
    scanned += read.scanned
    onProgress?.({step: step.id, scanned, total: undefined, pass, waitingFor: undefined})
    await countStep(lease, 'limits', {checked: pass === 1 ? registered.length : 0, written})
  }
}

const ATTEMPTS = 20

/** The transaction checks that no limits apply here or below: concurrent changes win. Resolves to whether it wrote. */
async function configureWhereNone(
  context: MigrationContext,
  {namespace, scope, limits}: Pick<ConfigRecord, 'namespace' | 'scope' | 'limits'>,
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
  throw new ZaelError('conflict', 'migrate.contended', `Other clients keep changing the limits of ${nameOf(scope)}.`, {
    hint: 'Resume: `zael migrate run --limits-from-buckets`.',
  })
}
