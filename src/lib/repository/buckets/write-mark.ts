import type {Table} from '../table/table.js'
import {MARK_SLOTS, type WriteMark} from './writes.js'

/** A mark that no other write has. */
export function newMark(table: Pick<Table, 'randomBytes'>): WriteMark {
  const [slot = 0, ...nonce] = table.randomBytes(9)
  return {slot: slot % MARK_SLOTS, nonce: Buffer.from(nonce).toString('base64url')}
}
