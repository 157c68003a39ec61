import {nearestNames} from '../../core/nearest.js'
import {OUTPUT_FORMATS} from './output-format.js'

/** How one setting can be given. */
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

/** The keys of a settings file. */
export const SETTING_KEYS = Object.keys(SETTING_RULES) as SettingKey[]

/** What is wrong with a value from a file or a variable, without repeating it; `undefined` when it is valid. */
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
