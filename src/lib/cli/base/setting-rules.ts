import {nearestNames} from '../../core/text/nearest.js'
import {isLoopback} from '../../dynamo/connection.js'
import {OUTPUT_FORMATS} from '../output/output-format.js'

export interface SettingRule {
  readonly flag: string
  readonly variable: string
  readonly fallback?: string
  /** Variables that AWS SDKs read, by descending priority. */
  readonly aws?: readonly string[]
}

export const SETTING_RULES = {
  stack: {flag: 'stack', variable: 'ZAEL_STACK', fallback: 'zae-limiter'},
  namespace: {flag: 'namespace', variable: 'ZAEL_NAMESPACE', fallback: 'default'},
  region: {flag: 'region', variable: 'ZAEL_REGION', aws: ['AWS_REGION', 'AWS_DEFAULT_REGION']},
  profile: {flag: 'profile', variable: 'ZAEL_PROFILE', aws: ['AWS_PROFILE']},
  endpointUrl: {
    flag: 'endpoint-url',
    variable: 'ZAEL_ENDPOINT_URL',
    aws: ['AWS_ENDPOINT_URL_DYNAMODB', 'AWS_ENDPOINT_URL'],
  },
  output: {flag: 'output', variable: 'ZAEL_OUTPUT', fallback: 'table'},
} as const satisfies Record<string, SettingRule>

export type SettingKey = keyof typeof SETTING_RULES

export const SETTING_KEYS = Object.keys(SETTING_RULES) as SettingKey[]

/** A `project` file is untrusted: others may have written its folder. */
export type SettingsFileKind = 'project' | 'user'

const PROJECT_ENDPOINT =
  'endpointUrl in a project file must be on this machine (localhost, 127.0.0.1, [::1]), because requests carry your ' +
  'credentials. For another address, use --endpoint-url, ZAEL_ENDPOINT_URL or your user settings file'

export function projectSettingProblem(key: SettingKey, value: string): string | undefined {
  const problem = settingProblem(key, value)
  if (problem !== undefined || key !== 'endpointUrl') return problem
  return isLoopback(new URL(value)) ? undefined : PROJECT_ENDPOINT
}

/** Never repeats the value, which may be a secret. `undefined`: valid. */
export function settingProblem(key: SettingKey, value: string): string | undefined {
  if (key === 'output' && !OUTPUT_FORMATS.some(format => format === value)) {
    const [nearest] = nearestNames(value.toLowerCase(), OUTPUT_FORMATS)
    const suggestion = nearest === undefined ? '' : `; did you mean "${nearest}"?`
    return `output must be one of ${OUTPUT_FORMATS.join(', ')}${suggestion}`
  }
  if (key === 'endpointUrl' && !(/^https?:\/\/./.test(value) && URL.canParse(value))) {
    return 'endpointUrl must be an http or https address, such as http://127.0.0.1:8000'
  }
  return undefined
}

// DynamoDB's names only: other names below amazonaws.com, such as API Gateway's, belong to customers.
const AWS_HOST = /(^|\.)(dynamodb|dynamodb-fips|ddb)\.[a-z0-9-]+\.(vpce\.)?(amazonaws\.com(\.cn)?|api\.aws)$/

/** `undefined` for AWS and this machine. Any other host sees requests signed with the credentials. */
export function foreignOrigin(endpointUrl: string | undefined): string | undefined {
  const url = endpointUrl !== undefined && URL.canParse(endpointUrl) ? new URL(endpointUrl) : undefined
  if (url === undefined || isLoopback(url)) return undefined
  return url.protocol === 'https:' && AWS_HOST.test(url.hostname) ? undefined : url.origin
}
