import {writeFile} from 'node:fs/promises'
import {join} from 'node:path'
import {ZaelError} from '../../core/errors.js'
import {describePathError, makeFolder} from '../../files/folder.js'
import {compactTemplate} from '../../files/template-yaml.js'
import {type Aws, readCallerIdentity} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'
import {cloudFormationGrants, commandGrants, type StackPlace} from '../permissions/permissions.js'
import {type PolicyDocument, policiesOf} from '../permissions/policy.js'
import {lambdaPackage, loadStackTemplate} from '../stack/artifacts.js'
import {bucketPattern} from '../stack/option-rules.js'
import {DEFAULT_PARAMETERS, OTHER_PARAMETERS, parametersOf, type StackOptionValues} from '../stack/options.js'

export interface ExportedFile {
  readonly path: string
  readonly bytes: number
  readonly purpose: string
}

export const EXPORTED_FILES = ['stack.yaml', 'parameters.json', 'parameter-overrides.json', 'aggregator.zip'] as const

export async function exportStack(folder: string, options: StackOptionValues): Promise<ExportedFile[]> {
  const {zip, sha256Base64} = await lambdaPackage()
  // Another key for other code, so that CloudFormation updates the function.
  const hash = Buffer.from(sha256Base64, 'base64').toString('hex').slice(0, 16)
  const parameters = allParameters(options, {CodeKey: `zael/aggregator-${hash}.zip`})
  // The only form that `aws cloudformation deploy` reads from a file in both versions of the AWS CLI.
  const pairs = parameters.map(({ParameterKey, ParameterValue}) => `${ParameterKey}=${ParameterValue}`)
  const [template, values, overrides, code] = EXPORTED_FILES
  const files = [
    {
      path: join(folder, template),
      content: compactTemplate(await loadStackTemplate()),
      purpose: 'CloudFormation template',
    },
    {path: join(folder, values), content: jsonOf(parameters), purpose: 'its parameters, for --parameters'},
    {path: join(folder, overrides), content: jsonOf(pairs), purpose: 'the same for --parameter-overrides'},
    {path: join(folder, code), content: zip, purpose: 'code of the aggregator function'},
  ]
  return writeExport(folder, files)
}

const jsonOf = (value: object): string => `${JSON.stringify(value, null, 2)}\n`

async function writeExport(
  folder: string,
  files: ReadonlyArray<Pick<ExportedFile, 'path' | 'purpose'> & {readonly content: string | Uint8Array}>,
): Promise<ExportedFile[]> {
  try {
    await makeFolder(folder)
    for (const {path, content} of files) await writeFile(path, content)
  } catch (cause) {
    throw new ZaelError('failed', 'deploy.export', `Cannot write to ${folder}: ${describePathError(cause)}.`, {
      hint: 'Choose another folder.',
      details: {folder},
      cause,
    })
  }
  return files.map(({path, content, purpose}) => ({path, bytes: Buffer.byteLength(content), purpose}))
}

function allParameters(
  options: StackOptionValues,
  others: Readonly<Record<string, string>>,
): Array<{ParameterKey: string; ParameterValue: string}> {
  const values = [
    ...Object.entries({...DEFAULT_PARAMETERS, ...parametersOf(options)}),
    ...OTHER_PARAMETERS.map(parameter => [parameter, others[parameter] ?? ''] as const),
  ]
  return values.map(([ParameterKey, ParameterValue]) => ({ParameterKey, ParameterValue}))
}

export interface PolicyRequest {
  readonly place: StackPlace
  readonly options: StackOptionValues
  readonly cloudFormationRole: string | undefined
  readonly templateBucket: string | undefined
}

/** IAM rejects a policy with it, so it cannot be forgotten. */
export const UNKNOWN_ACCOUNT = 'ACCOUNT_ID'

export interface PolicyAccount {
  /** `undefined`: that of the credentials. */
  readonly accountId: string | undefined
  /** A profile was meant to be used, so its credentials must not be missing. */
  readonly hasProfile: boolean
}

/** Works without credentials: the account is then the given one, or a placeholder. */
export async function policyPlace(
  aws: Aws,
  stack: string,
  {accountId, hasProfile}: PolicyAccount,
): Promise<StackPlace> {
  const region = await callAws('name the resources of the policies', () => aws.region())
  const place = {partition: partitionOf(region), region, stack}
  if (accountId !== undefined) return {...place, account: accountId}
  try {
    const {arn, account} = await readCallerIdentity(aws)
    const [, partition = place.partition] = arn.split(':')
    return {...place, partition, account}
  } catch (error) {
    if (!hasProfile && hasNoCredentials(error)) return {...place, account: UNKNOWN_ACCOUNT}
    throw error
  }
}

/** False for credentials that AWS rejects, as after their expiry. */
function hasNoCredentials(error: unknown): boolean {
  const {cause} = error instanceof ZaelError ? error : {}
  return cause instanceof Error && /^Could not load credentials from any providers/.test(cause.message)
}

/** First parts of region names. */
const PARTITIONS: Readonly<Record<string, string>> = {
  cn: 'aws-cn',
  eusc: 'aws-eusc',
  'us-gov': 'aws-us-gov',
  'us-iso': 'aws-iso',
  'us-isob': 'aws-iso-b',
  'us-isof': 'aws-iso-f',
  'eu-isoe': 'aws-iso-e',
}

function partitionOf(region: string): string {
  const [first = '', second = ''] = region.split('-')
  return PARTITIONS[`${first}-${second}`] ?? PARTITIONS[first] ?? 'aws'
}

interface PolicyFile {
  readonly name: string
  readonly policy: PolicyDocument
  readonly purpose: string
}

export function deployPolicies(request: PolicyRequest): PolicyFile[] {
  const {place, options, cloudFormationRole, templateBucket} = request
  const stack = {
    place,
    parameters: parametersOf(options),
    archiveBucket: bucketPattern(place.stack),
    cloudFormationRole: cloudFormationRole ?? null,
    templateBucket: templateBucket ?? null,
  }
  const indirect = cloudFormationGrants(stack).flatMap(({grants}) => grants)
  const holder = cloudFormationRole === undefined ? 'the deploying identity' : `the role ${cloudFormationRole}`
  return [
    ...numbered(
      'zael',
      policiesOf(commandGrants('deploy', stack)),
      'actions that zael calls: attach to the deploying identity',
    ),
    ...numbered('cloudformation', policiesOf(indirect), `actions that CloudFormation calls: attach to ${holder}`),
  ]
}

export function writePolicies(folder: string, files: readonly PolicyFile[]): Promise<ExportedFile[]> {
  const contents = files.map(({name, policy, purpose}) => ({
    path: join(folder, name),
    content: jsonOf(policy),
    purpose,
  }))
  return writeExport(folder, contents)
}

function numbered(name: string, policies: readonly PolicyDocument[], purpose: string): PolicyFile[] {
  const isSingle = policies.length === 1
  return policies.map((policy, at) => ({name: `${name}${isSingle ? '' : `-${at + 1}`}.json`, policy, purpose}))
}
