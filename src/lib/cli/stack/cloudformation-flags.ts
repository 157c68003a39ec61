import {boolean, string} from '@oclif/core/flags'
import {InvalidInput} from '../../core/errors.js'

export const cloudFormationFlags = {
  'cloudformation-role': string({
    description: 'ARN of the service role that CloudFormation acts with; it keeps it. Default: your own permissions.',
    helpValue: 'ARN',
  }),
}

export const statedFlags = {
  'from-file': string({
    description: 'Read options and tags from a YAML or JSON file; flags take precedence.',
    helpValue: 'FILE',
  }),
  tag: string({
    multiple: true,
    description: 'Tag for the stack and its resources; can be repeated.',
    helpValue: 'KEY=VALUE',
  }),
  'remove-tag': string({
    multiple: true,
    description: 'Remove a tag; can be repeated.',
    helpValue: 'KEY',
  }),
}

export const protectionFlags = {
  'termination-protection': boolean({
    allowNo: true,
    description: 'Let CloudFormation refuse to delete the stack. Not given: as it is.',
  }),
}

const folder = {
  helpValue: 'DIR',
  parse: async (typed: string) => {
    if (typed.trim() === '') throw new InvalidInput('deploy.folder', 'The name of the folder is empty.')
    return typed
  },
}

/** For tools that deploy themselves; what concerns a deployment of zael makes no sense with it. */
export const exportFlags = {
  export: string({
    description: 'Write template, parameters and code to a folder for other tools; AWS is not contacted.',
    ...folder,
    exclusive: [
      'tag',
      'remove-tag',
      'repair',
      'dry-run',
      'cloudformation-role',
      'template-bucket',
      'export-policy',
      'termination-protection',
    ],
  }),
}

export const permissionFlags = {
  'template-bucket': string({
    description: 'Pass the template through this S3 bucket, in the region of the stack; it stays there.',
    helpValue: 'NAME',
  }),
  'export-policy': string({
    description: 'Write the IAM policies that deploying with these options needs to a folder; deploy nothing.',
    ...folder,
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
