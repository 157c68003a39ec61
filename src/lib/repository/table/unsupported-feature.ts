import {ZaelError} from '../../core/errors.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import type {CarriedFeature} from '../../schema/peer-features.js'

/** A limit has an attribute unknown to zael. The record is neither used nor changed, whatever the outage policy. */
export class UnsupportedFeature extends ZaelError {
  /** The unknown attributes and their limits. */
  readonly features: readonly CarriedFeature[]

  /** `subject` begins a sentence, such as `The bucket of "a" for "b"`. */
  constructor(subject: string, features: readonly CarriedFeature[], details: Record<string, unknown>) {
    const [first] = features
    const what = `${subject} has the attribute "${first?.attribute}" for the limit "${first?.limit}", which this zael does not support.`
    super('conflict', 'feature.unsupported', `${what} A newer zae-limiter probably wrote it.`, {
      hint: 'Nothing was charged or changed. Use zae-limiter for it, install a newer zael, or remove the attribute.',
      details: {...details, features},
    })
    this.features = features
  }
}

export function requireSupported({entity, resource, shard, unsupported}: BucketRecord): void {
  if (unsupported)
    throw new UnsupportedFeature(`The bucket of "${entity}" for "${resource}"`, unsupported, {entity, resource, shard})
}
