import {pause} from '../../dynamo/retry.js'
import {sendRepeatable} from '../../repository/table/table.js'
import {SCHEMA_VERSION, UPDATED_BY_ZAEL} from '../../repository/table/version-compatibility.js'
import {isoSeconds} from '../../schema/attribute-value.js'
import {keyId, keys} from '../../schema/keys.js'
import {modernise} from '../../schema/legacy-item.js'
import {legacyVersionKey} from '../../schema/legacy-key.js'
import {decodeVersion, encodeVersion, type VersionRecord} from '../../schema/version-record.js'
import {classifyPage, hasUnprefixed} from '../records/classified-page.js'
import {putAbsent, readItems, replaceSeen} from '../records/conditional.js'
import {isAcceptedVersion} from '../records/copied-records.js'
import type {MigrationContext} from '../records/finding.js'
import {addMissingParts} from './add-indexes.js'
import {type Pass, type RunContext, registerDefault, runPass} from './pass.js'
import {tablePages} from './scan.js'
import {countStep, type MigrationStep} from './steps.js'
import {type LimitsWritten, type WriteLimitsOptions, writeLimitsFromBuckets} from './write-limits.js'

interface StepOptions {
  readonly ourVersion: string
  readonly stream?: boolean | undefined
  readonly followMs?: number | undefined
  readonly limitsFromBuckets?: WriteLimitsOptions | undefined
}

export interface StepOutcome {
  readonly added: readonly string[]
  readonly lastPass?: Pass
  readonly limitsWritten?: LimitsWritten
}

export async function runStep(step: MigrationStep, run: RunContext, options: StepOptions): Promise<StepOutcome> {
  const {open, lease, onProgress} = run
  switch (step.id) {
    case 'indexes': {
      const onWaiting = (waitingFor: string) =>
        onProgress?.({step: step.id, scanned: 0, total: undefined, pass: 1, waitingFor})
      const added = await addMissingParts(await open(), {stream: options.stream, onWaiting})
      await countStep(lease, step.id, {written: added.length})
      return {added}
    }
    case 'namespaces': {
      const context = await open()
      if (context.defaultNamespace === undefined && (await needsDefault(context))) await registerDefault(context, lease)
      return {added: []}
    }
    case 'limits': {
      const {limitsFromBuckets} = options
      if (!limitsFromBuckets) return {added: []}
      return {added: [], limitsWritten: await writeLimitsFromBuckets(step, run, limitsFromBuckets)}
    }
    case 'version':
      if (await recordVersion(await open(), options.ourVersion)) await countStep(lease, step.id, {written: 1})
      return {added: []}
    case 'catch-up':
      return {added: [], lastPass: await catchUp(step, run, options.followMs)}
    default:
      return {added: [], lastPass: await runPass(step, run)}
  }
}

async function needsDefault(context: MigrationContext): Promise<boolean> {
  for await (const {items} of tablePages(context)) if (hasUnprefixed(classifyPage(context, items))) return true
  return false
}

/** While old clients write, every pass finds something to catch up with. */
const MAX_PASSES = 8

const PAUSE_MS = 2_000

async function catchUp(step: MigrationStep, run: RunContext, followMs = 0): Promise<Pass> {
  await follow(step, run, followMs)
  const last = run.lease.record.pass + MAX_PASSES - 1
  for (;;) {
    const {pass} = run.lease.record
    const done = await runWholePass(step, run)
    if (done.isUpToDate || pass >= last) return done
    await run.lease.save({pass: pass + 1})
  }
}

async function follow(step: MigrationStep, run: RunContext, followMs: number): Promise<void> {
  const {table, signal} = await run.open()
  const {lease} = run
  const untilMs = table.clock() + followMs
  const backoff = {...table.backoff, random: () => 1, baseMs: PAUSE_MS, maxMs: PAUSE_MS}
  while (table.clock() < untilMs) {
    await runWholePass(step, run)
    await lease.save({pass: lease.record.pass + 1})
    await pause(0, backoff, signal)
  }
}

/** Starts at the beginning even after a crash: the result must cover the whole table. */
async function runWholePass(step: MigrationStep, run: RunContext): Promise<Pass> {
  await run.lease.save({position: undefined, passWrites: 0})
  return runPass(step, run)
}

const SCHEMA_WITH_LOCAL_INDEXES = '0.10.0'

/** Keeps a record that current clients accept, and the Lambda version of an older one. Resolves to whether it wrote. */
async function recordVersion(context: MigrationContext, ourVersion: string): Promise<boolean> {
  const seen = await readItems(context, [keys.version(), legacyVersionKey])
  const current = seen.get(keyId(keys.version()))
  if (current && isAcceptedVersion(decodeVersion(current))) return false
  const previous = current ?? seen.get(keyId(legacyVersionKey))
  const record: VersionRecord = {
    schemaVersion: (await hasLocalIndexes(context)) ? SCHEMA_WITH_LOCAL_INDEXES : SCHEMA_VERSION,
    lambdaVersion: previous && decodeVersion(modernise(previous, ''))?.lambdaVersion,
    // The minimum version of Python clients does not apply to ours (D-45).
    clientMinVersion: '0.0.0',
    updatedAt: isoSeconds(context.table.clock()),
    updatedBy: `${UPDATED_BY_ZAEL}${ourVersion}`,
  }
  const item = encodeVersion(record)
  const written = await (current ? replaceSeen(context, current, {...current, ...item}) : putAbsent(context, item))
  return written || recordVersion(context, ourVersion)
}

async function hasLocalIndexes({table, signal}: MigrationContext): Promise<boolean> {
  const {Table} = await sendRepeatable(table, 'DescribeTable', {TableName: table.name}, {signal})
  return (Table?.LocalSecondaryIndexes ?? []).length > 0
}
