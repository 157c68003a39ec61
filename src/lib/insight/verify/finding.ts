/** What can be wrong with stored records, and what each kind means; the order is that of reports. */
export const FINDING_KINDS = {
  usage: 'usage counted twice or not at all',
  refill: 'a refill instant ahead of time',
  remainder: 'an unreadable fraction of a token',
  limits: 'limits other than those configured',
  limitless: 'a bucket without limits at any level, in a migrated table',
  shards: 'shards that are missing, surplus or disagree',
  ghost: 'what a refund left of a deleted bucket',
  parent: 'a parent that is missing or differs',
  index: 'missing or wrong index keys',
  boost: 'a boost that has ended and is still configured',
  registry: 'a registry that differs from the records',
  namespace: 'a namespace whose two records disagree',
  orphan: 'records of a namespace that does not exist',
  malformed: 'attributes that cannot be read',
  unknown: 'an item of no known kind',
} as const

export type FindingKind = keyof typeof FINDING_KINDS

export interface Finding {
  readonly kind: FindingKind
  readonly key: string
  /** What of the record is concerned, such as a limit; tells apart several findings of one kind. */
  readonly subject: string
  readonly namespace: string | undefined
  readonly entity: string | undefined
  readonly resource: string | undefined
  readonly reason: string
  /** ISO instant since when, as far as the records tell. */
  readonly since: string | undefined
  /**
   * Repairs it on condition that the records are as they were read; false when they have changed since. Absent when
   * the records do not tell what is right.
   */
  readonly repair?: (() => Promise<boolean>) | undefined
}

/** The same finding at two looks has the same id, also when the amounts have changed. */
export const findingId = ({kind, key, subject}: Pick<Finding, 'kind' | 'key' | 'subject'>): string =>
  JSON.stringify([kind, key, subject])
