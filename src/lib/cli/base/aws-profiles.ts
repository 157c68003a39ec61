import {readFile} from 'node:fs/promises'
import {homedir} from 'node:os'
import {join} from 'node:path'
import {ZaelError} from '../../core/errors.js'
import {didYouMean, nearestNames} from '../../core/text/nearest.js'
import type {Setting} from './settings.js'

type Environment = Readonly<Record<string, string | undefined>>

const CREDENTIAL_ERRORS = new Set(['aws.credentials', 'dynamo.denied'])

export async function withKnownProfiles(
  error: unknown,
  profile: Pick<Setting, 'value' | 'from'>,
  env: Environment,
): Promise<unknown> {
  const used = profile.value ?? env.AWS_PROFILE
  if (!used || !(error instanceof ZaelError) || !CREDENTIAL_ERRORS.has(error.code)) return error
  const known = await profileNames(env)
  if (known === undefined || known.includes(used)) return error
  const meant = didYouMean(nearestNames(used, known))
  const from = profile.value === undefined ? 'AWS_PROFILE' : (profile.from ?? '--profile')
  return new ZaelError('access', 'aws.profile', `There is no AWS profile "${used}" (${from}).`, {
    hint: `${meant === undefined ? '' : `${meant} `}To see all: aws configure list-profiles. To make one: aws configure sso`,
    details: {profile: used, known},
    cause: error,
  })
}

/** The profiles in the files of the AWS CLI, sorted; `undefined` when a file cannot be read. */
async function profileNames(env: Environment): Promise<string[] | undefined> {
  const folder = join(env.HOME || homedir(), '.aws')
  const files = [
    env.AWS_CONFIG_FILE || join(folder, 'config'),
    env.AWS_SHARED_CREDENTIALS_FILE || join(folder, 'credentials'),
  ]
  try {
    const texts = await Promise.all(files.map(readIfThere))
    const names = texts.flatMap(text =>
      Array.from(
        text.matchAll(/^\s*\[\s*(?:profile\s+)?(?:"([^"]+)"|([^\]\s]+))\s*\]/gm),
        ([, quoted, plain]) => quoted ?? plain,
      ),
    )
    return [...new Set(names.flatMap(name => name ?? []))].sort()
  } catch {
    return undefined
  }
}

async function readIfThere(path: string): Promise<string> {
  return readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return ''
    throw error
  })
}
