import {PutObjectCommand, S3Client} from '@aws-sdk/client-s3'
import type {ArchiveSink} from './audit-archive.js'

/** Ms for one object, retries included: the next batch of the stream waits for it, and what is not archived is kept. */
const LONGEST_PUT_MS = 3_000

/** Stores the archive in an S3 bucket. Puts are idempotent, so the SDK may retry them. */
export function s3Sink(
  bucket: string,
  client: Pick<S3Client, 'send'> = new S3Client({}),
  longestPutMs = LONGEST_PUT_MS,
): ArchiveSink {
  return {
    async put(key, body, {contentType, contentEncoding}) {
      const object = {Bucket: bucket, Key: key, Body: body, ContentType: contentType, ContentEncoding: contentEncoding}
      await client.send(new PutObjectCommand(object), {abortSignal: AbortSignal.timeout(longestPutMs)})
    },
  }
}
