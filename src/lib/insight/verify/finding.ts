/** In report order. */
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
  /** The part of the record concerned, such as a limit. Distinguishes findings of one kind. */
  readonly subject: string
  readonly namespace: string | undefined
  readonly entity: string | undefined
  readonly resource: string | undefined
  readonly reason: string
  /** ISO instant, if the records show one. */
  readonly since: string | undefined
  /** Resolves to false if the records changed since. Absent if they do not show what is right. */
  readonly repair?: (() => Promise<boolean>) | undefined
}

/** A finding of an item. Its key, and by default what the key names, are added later. */
export type ItemFinding = Pick<Finding, 'kind' | 'subject' | 'reason' | 'repair'> &
  Partial<Pick<Finding, 'namespace' | 'entity' | 'resource' | 'since'>>

/** The same at every look, even if amounts change. */
export const findingId = ({kind, key, subject}: Pick<Finding, 'kind' | 'key' | 'subject'>): string =>
  JSON.stringify([kind, key, subject])
