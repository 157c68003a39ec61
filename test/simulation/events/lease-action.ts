import type {Lease} from '../../../src/lib/limiter/lease.js'
import type {LeaseAction, Tokens} from '../scenario.js'

/** Change of the charge by an action, in whole tokens. A rollback refunds everything held. */
export function deltasOf(action: LeaseAction): Tokens {
  if (action.kind === 'adjust') return action.deltas
  if (action.kind === 'consume') return action.amounts
  if (action.kind !== 'release') return {}
  return Object.fromEntries(Object.entries(action.amounts).map(([name, tokens]) => [name, -tokens]))
}

export async function perform(lease: Lease, action: LeaseAction): Promise<void> {
  switch (action.kind) {
    case 'adjust':
      return lease.adjust(action.deltas)
    case 'release':
      return lease.release(action.amounts)
    case 'consume':
      return lease.consume(action.amounts)
    case 'commit':
      return lease.commit()
    case 'rollback':
      return lease.rollback()
  }
}
