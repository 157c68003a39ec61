import {PutObjectCommand, S3Client} from '@aws-sdk/client-s3'
import type {ArchiveSink} from './audit-archive.js'

/** Per object, retries included: the stream's next batch waits for it, and unarchived events are kept. */
const LONGEST_PUT_MS = 3_000

/** Puts are idempotent, so the SDK may retry them. */
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
