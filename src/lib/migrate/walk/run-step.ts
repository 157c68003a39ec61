import {classifyPage, hasUnprefixed} from '../records/classified-page.js'
import type {MigrationContext} from '../records/finding.js'
import {addMissingParts} from './add-indexes.js'
import {catchUp} from './catch-up.js'
import {type Pass, type RunContext, registerDefault, runPass} from './pass.js'
import {tablePages} from './scan.js'
import {countStep, type MigrationStep} from './steps.js'
import {recordVersion} from './version-step.js'
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
