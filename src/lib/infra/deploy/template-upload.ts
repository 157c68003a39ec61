import {createHash} from 'node:crypto'
import {PutObjectCommand} from '@aws-sdk/client-s3'
import {InvalidInput, ZaelError} from '../../core/errors.js'
import {compactTemplate, withoutItemsOf} from '../../files/template-yaml.js'
import type {Aws} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'
import {ownKey} from '../permissions/permissions.js'
import {loadStackTemplate} from '../stack/artifacts.js'

/** Bytes; CloudFormation accepts a longer template only from a bucket. */
export const MAX_INLINE_BYTES = 51_200

export type TemplateSource = {readonly TemplateBody: string} | {readonly TemplateURL: string}

export function checkTemplateLength(template: string, bucket: string | undefined): void {
  const bytes = Buffer.byteLength(template)
  if (bucket !== undefined || bytes <= MAX_INLINE_BYTES) return
  const message = `The template has ${bytes} bytes, but CloudFormation accepts only ${MAX_INLINE_BYTES} in a request.`
  throw new InvalidInput('deploy.template-length', message, {
    hint: 'Nothing was changed. Upload it through one of your buckets in the same region: --template-bucket NAME',
    details: {bytes, maxBytes: MAX_INLINE_BYTES},
  })
}

/** The key contains the hash, so that the same template is stored once. */
export async function passTemplate(
  aws: Aws,
  {stack, template, bucket}: {readonly stack: string; readonly template: string; readonly bucket: string | undefined},
): Promise<TemplateSource> {
  if (bucket === undefined) return {TemplateBody: template}
  const key = `zael/${stack}/${createHash('sha256').update(template).digest('hex').slice(0, 16)}.yaml`
  return callAws(`upload the template to the bucket "${bucket}"`, async () => {
    const client = await aws.s3()
    const upload = new PutObjectCommand({Bucket: bucket, Key: key, Body: template, ContentType: 'application/yaml'})
    let address = ''
    // Captures the upload's address, whose form depends on the partition or emulator.
    upload.middlewareStack.add(
      next => args => {
        const {protocol, hostname, port, path} = args.request as {
          protocol: string
          hostname: string
          port?: number
          path: string
        }
        address = `${protocol}//${hostname}${port === undefined ? '' : `:${port}`}${path}`
        return next(args)
      },
      {step: 'build'},
    )
    await client.send(upload).catch(error => {
      throw unusableBucket(bucket, error) ?? error
    })
    return {TemplateURL: address}
  })
}

function unusableBucket(bucket: string, error: unknown): ZaelError | undefined {
  const {name = ''} = error instanceof Error ? error : {}
  const problem = /^(PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraintException)$/.test(name)
    ? 'is in another region'
    : name === 'NoSuchBucket'
      ? 'does not exist'
      : undefined
  if (problem === undefined) return undefined
  return new ZaelError('notFound', 'deploy.template-bucket', `The bucket "${bucket}" ${problem}.`, {
    hint: 'Nothing was changed. Name one of your buckets in the region of the stack with --template-bucket.',
    details: {bucket},
    cause: error,
  })
}

const OWN_NAME = 'TableName: !If [NamedTable, !Ref TableName, !Ref AWS::StackName]'

const compacted = new Map<boolean, Promise<string>>()

/** An imported table needs a literal name: CloudFormation evaluates no functions there. */
export async function sentTemplate(
  aws: Aws,
  parameters: Readonly<Record<string, string>>,
  imported: {readonly table: string} | undefined,
): Promise<string> {
  // Where a condition is not met, emulators such as moto leave an empty statement and then reject the policy.
  const text = await compactOnce(!aws.isLocal || ownKey(parameters) !== null)
  return imported ? text.replace(OWN_NAME, `TableName: ${JSON.stringify(imported.table)}`) : text
}

/** Once per process: compacting takes tens of milliseconds. */
function compactOnce(isUnderstood: boolean): Promise<string> {
  const known = compacted.get(isUnderstood)
  if (known) return known
  const made = loadStackTemplate().then(text => compactTemplate(isUnderstood ? text : withoutItemsOf('OwnKey', text)))
  compacted.set(isUnderstood, made)
  return made
}
