import {boolean, string} from '@oclif/core/flags'
import type {BooleanFlag, OptionFlag} from '@oclif/core/interfaces'
import {InvalidInput} from '../../core/errors.js'
import {STACK_OPTIONS, type StackOption} from '../../infra/stack/options.js'

export const cloudFormationFlags = {
  'cloudformation-role': string({
    description: 'ARN of the role CloudFormation assumes, now and for later updates. Default: your own permissions.',
    helpValue: 'ARN',
  }),
}

export const statedFlags = {
  'from-file': string({
    description: 'Read options and tags from a YAML or JSON file. Flags take precedence.',
    helpValue: 'FILE',
  }),
  tag: string({
    multiple: true,
    description: 'Add a tag to the stack and its resources. Repeatable.',
    helpValue: 'KEY=VALUE',
  }),
  'remove-tag': string({
    multiple: true,
    description: 'Remove a tag. Repeatable.',
    helpValue: 'KEY',
  }),
}

export const protectionFlags = {
  'termination-protection': boolean({
    allowNo: true,
    description: 'Protect the stack against deletion. Default: unchanged.',
  }),
}

const folder = {
  helpValue: 'DIR',
  parse: async (typed: string) => {
    if (typed.trim() === '') throw new InvalidInput('deploy.folder', 'The folder name is empty.')
    return typed
  },
}

/** For other deployment tools; excludes flags that only matter when zael deploys. */
export const exportFlags = {
  export: string({
    description: 'Write the template, parameters and code to a folder for other tools, without contacting AWS.',
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
    description: 'Upload the template to this S3 bucket, in the region of the stack, and keep it there.',
    helpValue: 'NAME',
  }),
  'export-policy': string({
    description: 'Write the IAM policies that this deployment needs to a folder, without deploying.',
    ...folder,
    exclusive: ['tag', 'remove-tag', 'dry-run'],
  }),
  'account-id': string({
    description: 'Account for --export-policy, without contacting AWS. Default: the account of your credentials.',
    helpValue: 'NUMBER',
    dependsOn: ['export-policy'],
  }),
}

export function noPolicies(): InvalidInput {
  return new InvalidInput('deploy.no-policies', 'A local engine needs no IAM policies.', {
    hint: 'Choose an AWS account and region with --profile and --region.',
  })
}

export function parseRoleArn(text: string | undefined): string | undefined {
  if (text === undefined || /^arn:aws[a-z-]*:iam::\d{12}:role\/[\w+=,.@/-]{1,576}$/.test(text)) return text
  throw new InvalidInput('deploy.role', `--cloudformation-role is "${text}"; it must be the ARN of an IAM role.`, {
    hint: 'Write it like arn:aws:iam::123456789012:role/cloudformation.',
    details: {role: text},
  })
}

export function parseAccountId(text: string | undefined): string | undefined {
  if (text === undefined || /^\d{12}$/.test(text)) return text
  throw new InvalidInput('deploy.account', `--account-id is "${text}"; it must be an AWS account ID.`, {
    hint: 'Give 12 digits, such as 123456789012.',
    details: {account: text},
  })
}

export function parseBucketName(text: string | undefined): string | undefined {
  if (text === undefined || /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(text)) return text
  throw new InvalidInput('deploy.bucket', `--template-bucket is "${text}"; it must be the name of an S3 bucket.`, {
    hint: 'Give only the name, such as my-templates, without s3:// or a path.',
    details: {bucket: text},
  })
}

type Flag = BooleanFlag<boolean> | OptionFlag<string | undefined>

/** No defaults: an option that is not typed keeps its deployed value. */
export const optionFlags: Readonly<Record<string, Flag>> = Object.fromEntries(
  STACK_OPTIONS.map(option => [option.flag, flagFor(option)]),
)

export function typedOptions(flags: Readonly<Record<string, unknown>>): Record<string, string> {
  const typed = STACK_OPTIONS.filter(({flag}) => flags[flag] !== undefined)
  return Object.fromEntries(typed.map(option => [option.name, String(flags[option.flag])]))
}

function flagFor(option: StackOption): Flag {
  const common = {
    description: `${option.description}${defaultOf(option)}`,
    helpGroup: `${option.group.toUpperCase()} OPTION`,
  }
  if (option.kind === 'boolean') return boolean({...common, allowNo: true}) as BooleanFlag<boolean>
  if (option.kind === 'choice') return string({...common, options: [...(option.choices ?? [])]})
  return string({...common, helpValue: helpValueOf(option)})
}

function defaultOf({default: byDefault, unit, kind}: StackOption): string {
  if (byDefault === null) return ''
  const text = kind === 'boolean' ? (byDefault ? 'on' : 'off') : String(byDefault)
  return ` Default: ${text}${unit === undefined ? '' : ` ${unit}`}.`
}

function helpValueOf({kind, unit}: StackOption): string {
  if (kind === 'list') return 'A,B'
  return kind === 'integer' ? (unit === 'days' ? 'DAYS' : 'NUMBER') : 'TEXT'
}
