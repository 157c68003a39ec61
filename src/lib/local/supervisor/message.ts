import type {ErrorKind} from '../../core/errors.js'
import type {StackState} from '../state-dir/state.js'

/** A `ZaelError` on its way between processes; without a code it is a bug. */
export interface ErrorReport {
  readonly kind?: ErrorKind
  readonly code?: string
  readonly message: string
  readonly hint?: string | undefined
  readonly details?: Record<string, unknown>
}

/** What a supervisor tells the command that starts it, once. */
export type SupervisorMessage =
  | {readonly kind: 'ready'; readonly state: StackState}
  | {readonly kind: 'failed'; readonly error: ErrorReport}
