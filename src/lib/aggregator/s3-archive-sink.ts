import type {S3Client} from '@aws-sdk/client-s3'
import type {ArchiveSink} from './audit-archive.js'

/** Per object, retries included: the stream's next batch waits for it, and unarchived events are kept. */
const LONGEST_PUT_MS = 3_000

/** Puts are idempotent, so the SDK may retry them. Loads the SDK for the first one: most functions archive nothing. */
export function s3Sink(bucket: string, client?: Pick<S3Client, 'send'>, longestPutMs = LONGEST_PUT_MS): ArchiveSink {
  let sender = client
  return {
    async put(key, body, {contentType, contentEncoding}) {
      const {PutObjectCommand, S3Client} = await import('@aws-sdk/client-s3')
      sender ??= new S3Client({})
      const object = {Bucket: bucket, Key: key, Body: body, ContentType: contentType, ContentEncoding: contentEncoding}
      await sender.send(new PutObjectCommand(object), {abortSignal: AbortSignal.timeout(longestPutMs)})
    },
  }
}
