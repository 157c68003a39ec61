import {checkCompatibility} from '../../repository/table/version-compatibility.js'
import type {VersionRecord} from '../../schema/version-record.js'

/** Whether clients of today work on a table with this version record. */
export function isAccepted(record: VersionRecord | undefined): boolean {
  try {
    checkCompatibility(record, '', false)
    return record !== undefined
  } catch {
    return false
  }
}
