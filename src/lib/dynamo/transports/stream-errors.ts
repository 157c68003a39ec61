import {ZaelError} from '../../core/errors.js'

/** A place in a shard is kept for some minutes only; asking for it again mends that. */
export class IteratorExpired extends ZaelError {
  constructor(cause?: unknown) {
    super('failed', 'stream.iterator-expired', 'The place in the stream has expired', {
      hint: 'Ask for it again by its sequence number.',
      cause,
    })
  }
}

/** The records at this place are gone: a stream keeps them for a day. */
export class RecordsTrimmed extends ZaelError {
  constructor(cause?: unknown) {
    super('failed', 'stream.trimmed', 'Records of the stream were removed before they were read', {
      hint: 'Go on with the oldest record that is left.',
      cause,
    })
  }
}
