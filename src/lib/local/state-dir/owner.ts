import {ZaelError} from '../../core/errors.js'

interface Ownership {
  readonly uid: number
  readonly mode: number
}

/** Throws when a path belongs to another user. Windows has neither user ids nor permission bits. */
export function checkOwnUser(path: string, {uid}: Pick<Ownership, 'uid'>, hint: string): void {
  const own = process.getuid?.()
  if (own === undefined || uid === own) return
  throw new ZaelError('access', 'local.owner', `${path} belongs to another user (uid ${uid}; yours is ${own})`, {
    hint,
    details: {path, uid},
  })
}

/**
 * Throws unless a path belongs to this user and no other user can read or change it. It is not repaired: others may have
 * changed it already.
 */
export function checkPrivate(path: string, {uid, mode}: Ownership): void {
  checkOwnUser(path, {uid}, 'Set ZAEL_DATA_DIR to a folder of your own.')
  if (process.getuid === undefined || (mode & 0o077) === 0) return
  const bits = (mode & 0o777).toString(8)
  throw new ZaelError('access', 'local.permissions', `${path} can be used by other users (mode ${bits})`, {
    hint: `Check that it is as you left it, then run: chmod go= '${path.replaceAll("'", `'\\''`)}'`,
    details: {path, mode: bits},
  })
}
