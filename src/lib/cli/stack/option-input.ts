import {existsSync} from 'node:fs'
import {readFile} from 'node:fs/promises'
import {join} from 'node:path'
import {ZaelError} from '../../core/errors.js'
import type {Aws} from '../../infra/aws/clients.js'
import type {ExportedFile, PolicyAccount} from '../../infra/deploy/export.js'
import type {DeployRequest} from '../../infra/deploy/plan.js'
import {confirm} from '../output/confirm.js'

/** Tags as KEY=VALUE, removed tags as KEY. */
interface Typed {
  readonly options: Readonly<Record<string, string>>
  readonly tags: readonly string[]
  readonly removedTags: readonly string[]
}

export async function readOptions(
  file: string | undefined,
  typed: Typed,
): Promise<Pick<DeployRequest, 'options' | 'tags' | 'removedTags'>> {
  const [{parseOptionFile}, {parseTypedOptions}, {parseTags, parseRemovedTags}] = await Promise.all([
    import('../../infra/stack/option-file.js'),
    import('../../infra/stack/option-schema.js'),
    import('../../infra/stack/tags.js'),
  ])
  const options = parseTypedOptions(typed.options)
  const typedTags = parseTags(typed.tags)
  const removedTags = parseRemovedTags(typed.removedTags, typedTags)
  if (file === undefined) return {options, tags: typedTags, removedTags}
  const stated = parseOptionFile(await readFile(file, 'utf8').catch(unreadable(file)), file)
  return {options: {...stated.options, ...options}, tags: {...stated.tags, ...typedTags}, removedTags}
}

interface Consent {
  readonly yes: boolean
  readonly signal: AbortSignal
}

export async function exportWithConsent(
  folder: string,
  {stack, options}: Pick<DeployRequest, 'stack' | 'options'>,
  consent: Consent,
): Promise<ExportedFile[]> {
  const [{exportStack, EXPORTED_FILES}, {checkCombination}, {parametersOf}] = await Promise.all([
    import('../../infra/deploy/export.js'),
    import('../../infra/stack/option-rules.js'),
    import('../../infra/stack/options.js'),
  ])
  checkCombination(stack, parametersOf(options))
  await confirmOverwriting('the export', folder, EXPORTED_FILES, consent)
  return exportStack(folder, options)
}

export async function exportPolicyWithConsent(
  aws: Aws,
  folder: string,
  request: Pick<DeployRequest, 'stack' | 'options' | 'cloudFormationRole' | 'templateBucket'>,
  account: PolicyAccount,
  consent: Consent,
): Promise<{readonly files: readonly ExportedFile[]; readonly warning: string | undefined}> {
  const [{deployPolicies, policyPlace, UNKNOWN_ACCOUNT, writePolicies}, {checkCombination}, {parametersOf}] =
    await Promise.all([
      import('../../infra/deploy/export.js'),
      import('../../infra/stack/option-rules.js'),
      import('../../infra/stack/options.js'),
    ])
  const {stack, options, cloudFormationRole, templateBucket} = request
  checkCombination(stack, parametersOf(options))
  const place = await policyPlace(aws, stack, account)
  const files = deployPolicies({place, options, cloudFormationRole, templateBucket})
  const names = files.map(({name}) => name)
  await confirmOverwriting('the policies', folder, names, consent)
  const isOpen = place.account === UNKNOWN_ACCOUNT
  return {files: await writePolicies(folder, files), warning: isOpen ? openAccount(UNKNOWN_ACCOUNT) : undefined}
}

function openAccount(placeholder: string): string {
  return (
    `No AWS credentials were found, so the policies name the account ${placeholder}. ` +
    'Replace it with the account ID, or run the same command with --account-id.'
  )
}

async function confirmOverwriting(what: string, folder: string, names: readonly string[], consent: Consent) {
  if (names.some(name => existsSync(join(folder, name)))) await confirm(`This overwrites ${what} in ${folder}`, consent)
}

function unreadable(file: string): (error: NodeJS.ErrnoException) => never {
  return error => {
    const isMissing = error.code === 'ENOENT'
    const why = error.code === 'EISDIR' ? 'it is a folder.' : error.message
    const message = isMissing ? `File ${file} not found.` : `Cannot read ${file}: ${why}`
    throw new ZaelError(isMissing ? 'notFound' : 'failed', 'deploy.file', message, {
      hint: 'Use a YAML or JSON file with lines such as "lambdaMemory: 1024".',
      details: {file},
    })
  }
}
