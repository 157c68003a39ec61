import {option} from '@oclif/core/flags'

/** What audit events are about: written by zael, or by other clients of a table. */
const AUDIT_ACTIONS = [
  'bucket_reset',
  'bucket_topped_up',
  'entity_created',
  'entity_deleted',
  'entity_parent_changed',
  'entity_updated',
  'limits_boost_ended',
  'limits_deleted',
  'limits_set',
  'verify_repaired',
] as const

export const actionFlag = option({
  options: AUDIT_ACTIONS,
  description: 'Only events with this action, such as limits_set.',
  helpValue: 'ACTION',
})
