/** What audit events are about: written by zael, or by other clients of a table. */
export const AUDIT_ACTIONS = [
  'bucket_reset',
  'bucket_topped_up',
  'entity_created',
  'entity_deleted',
  'entity_parent_changed',
  'entity_updated',
  'limits_deleted',
  'limits_set',
  'verify_repaired',
] as const
