import type {MigrationContext} from '../records/finding.js'
import {addMissingParts} from './add-indexes.js'
import {catchUp} from './catch-up.js'
import {hasUnprefixed, onePass, type Pass, type PassContext, registerDefault} from './pass.js'
import {tablePages} from './scan.js'
import {countStep} from './step-counts.js'
import type {Step} from './steps.js'
import {recordVersion} from './version-step.js'

export interface StepOptions {
  readonly ourVersion: string
  readonly stream?: boolean | undefined
  /** How long both places are kept together once everything is copied, in ms. */
  readonly followMs?: number | undefined
}

/** What a step did besides its counts. */
export interface StepDone {
  readonly added: readonly string[]
  readonly lastPass?: Pass
}

const DONE: StepDone = {added: []}

/** Does one step, from where the record of the lease says. */
export async function runStep(step: Step, context: PassContext, options: StepOptions): Promise<StepDone> {
  const {open, lease, onProgress} = context
  switch (step.id) {
    case 'indexes': {
      const tell = (waitingFor: string) =>
        onProgress?.({step: step.id, scanned: 0, total: undefined, pass: 1, waitingFor})
      const added = await addMissingParts(await open(), {stream: options.stream, onWaiting: tell})
      await countStep(lease, step.id, {written: added.length})
      return {added}
    }
    case 'namespaces': {
      const stage = await open()
      if (stage.defaultNamespace === undefined && (await needsDefault(stage))) await registerDefault(stage, lease)
      return DONE
    }
    case 'version':
      if (await recordVersion(await open(), options.ourVersion)) await countStep(lease, step.id, {written: 1})
      return DONE
    case 'catch-up':
      return {added: [], lastPass: await catchUp(step, context, options.followMs)}
    default:
      return {added: [], lastPass: await onePass(step, context)}
  }
}

async function needsDefault(stage: MigrationContext): Promise<boolean> {
  for await (const {items} of tablePages(stage)) if (hasUnprefixed(stage, items)) return true
  return false
}
