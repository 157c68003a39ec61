import {string} from '@oclif/core/flags'
import {InvalidInput} from '../../core/errors.js'

/** The flag of commands that let CloudFormation act. */
export const cloudFormationFlags = {
  'cloudformation-role': string({
    description: 'ARN of the service role that CloudFormation acts with; it keeps it. Default: your own permissions.',
    helpValue: 'ARN',
  }),
}

/** What `zael deploy` takes for accounts that allow little. */
export const permissionFlags = {
  'template-bucket': string({
    description: 'Pass the template through this S3 bucket, in the region of the stack; it stays there.',
    helpValue: 'NAME',
  }),
  'export-policy': string({
    description: 'Write the IAM policies that deploying with these options needs to a folder; deploy nothing.',
    helpValue: 'DIR',
    exclusive: ['tag', 'remove-tag', 'dry-run'],
  }),
}

export function noPolicies(): InvalidInput {
  return new InvalidInput('deploy.no-policies', 'A local engine has no permissions, so there is no policy to export.', {
    hint: 'Choose the account and region to deploy to, with --profile and --region.',
  })
}

/** The given ARN; throws when it is not the ARN of a role. */
export function parseRoleArn(text: string | undefined): string | undefined {
  if (text === undefined || /^arn:aws[a-z-]*:iam::\d{12}:role\/[\w+=,.@/-]{1,576}$/.test(text)) return text
  throw new InvalidInput('deploy.role', `--cloudformation-role is "${text}"; it must be the ARN of an IAM role.`, {
    hint: 'Write it like arn:aws:iam::123456789012:role/cloudformation.',
    details: {role: text},
  })
}

/** The given name; throws when no bucket can have it. */
export function parseBucketName(text: string | undefined): string | undefined {
  if (text === undefined || /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(text)) return text
  throw new InvalidInput('deploy.bucket', `--template-bucket is "${text}"; it must be the name of an S3 bucket.`, {
    hint: 'Give the name alone, such as my-templates, without s3:// and without a path.',
    details: {bucket: text},
  })
}
