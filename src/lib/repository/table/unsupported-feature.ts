import {ZaelError} from '../../core/errors.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {type CarriedFeature, PEER_FEATURES} from '../../schema/peer-features.js'

/**
 * A bucket or configuration has a feature of a newer zae-limiter that this zael does not know how to honour: it is
 * neither used nor changed, whatever the policy for outages.
 */
export class UnsupportedFeature extends ZaelError {
  /** What the record has, and which of its limits. */
  readonly features: readonly CarriedFeature[]

  /** `subject` begins a sentence, such as `The bucket of "a" for "b"`. */
  constructor(subject: string, features: readonly CarriedFeature[], details: Record<string, unknown>) {
    const [first] = features
    const {what, since} = PEER_FEATURES[first?.feature ?? 'schedule']
    const limit = first?.limit === undefined ? '' : ` (${first.limit})`
    const reason = `${subject} ${what}${limit}, a feature of zae-limiter ${since} that this zael does not support.`
    super('conflict', 'feature.unsupported', reason, {
      hint: 'Nothing was charged or changed. Use zae-limiter for it, install a newer zael, or remove the feature there.',
      details: {...details, features},
    })
    this.features = features
  }
}

/** Throws unless zael can honour everything that a bucket has. */
export function requireSupported({entity, resource, shard, unsupported}: BucketRecord): void {
  if (unsupported)
    throw new UnsupportedFeature(`The bucket of "${entity}" for "${resource}"`, unsupported, {entity, resource, shard})
}
