import type {ErrorKind} from '../../core/errors.js'

/** Exit codes by outcome. Stable: scripts branch on them. */
export const EXIT = {
  ok: 0,
  failed: 1,
  usage: 2,
  notFound: 3,
  access: 4,
  conflict: 5,
  /** The command succeeded and its answer is no: refused, unhealthy, different, not clean. */
  negative: 6,
  interrupted: 130,
  terminated: 143,
} as const satisfies Record<ErrorKind | 'ok', number>
