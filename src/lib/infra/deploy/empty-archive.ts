import {DeleteBucketCommand, DeleteObjectsCommand, ListObjectVersionsCommand} from '@aws-sdk/client-s3'
import {ZaelError} from '../../core/errors.js'
import {Aborted} from '../../dynamo/errors.js'
import type {Aws} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'
import type {WaitOptions} from '../aws/poll.js'

/** Deletes every object of a bucket in all its versions, then the bucket; returns the number of deleted versions. */
export async function deleteArchive(aws: Aws, Bucket: string, {signal}: WaitOptions): Promise<number> {
  return callAws(`empty the bucket "${Bucket}"`, async () => {
    const client = await aws.s3()
    let deleted = 0
    for (;;) {
      if (signal?.aborted === true) throw new Aborted('Emptying the archive', false, signal.reason)
      // Always the first page: its objects are gone by the next request.
      const {Versions = [], DeleteMarkers = []} = await client.send(new ListObjectVersionsCommand({Bucket}))
      const Objects = [...Versions, ...DeleteMarkers].map(({Key, VersionId}) => ({Key, VersionId}))
      if (Objects.length === 0) break
      const {Errors: [failed] = []} = await client.send(
        new DeleteObjectsCommand({Bucket, Delete: {Objects, Quiet: true}}),
      )
      if (failed) throw cannotDelete(Bucket, failed.Key ?? '', failed.Message ?? failed.Code ?? '')
      deleted += Objects.length
    }
    await client.send(new DeleteBucketCommand({Bucket}))
    return deleted
  })
}

function cannotDelete(bucket: string, key: string, reason: string): ZaelError {
  return new ZaelError('failed', 'delete.archive', `Cannot delete "${key}" from the bucket "${bucket}": ${reason}`, {
    hint: `Fix the cause, then delete the rest: aws s3 rb s3://${bucket} --force`,
    details: {bucket, key},
  })
}
