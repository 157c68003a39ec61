import {InvalidInput} from '../core/errors.js'
import {isLoopback} from '../dynamo/connection.js'
import {LOCAL_STACK} from './state-dir/state.js'

type EnvFormat = 'sh' | 'fish' | 'powershell' | 'dotenv'

export function localVariables(endpoint: string): Record<string, string> {
  return {
    ZAEL_STACK: LOCAL_STACK,
    AWS_ENDPOINT_URL_DYNAMODB: endpoint,
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'local',
    AWS_SECRET_ACCESS_KEY: 'local',
  }
}

/** Only variables that point to a local engine: a user's own values stay. */
export function localVariablesIn(env: Readonly<Record<string, string | undefined>>): string[] {
  const isLocal = env.AWS_ACCESS_KEY_ID === 'local'
  return Object.entries(localVariables('')).flatMap(([name, value]) => {
    const now = env[name]
    if (now === undefined) return []
    if (name === 'AWS_ENDPOINT_URL_DYNAMODB') return URL.canParse(now) && isLoopback(new URL(now)) ? [name] : []
    return now === value && (name === 'ZAEL_STACK' || isLocal) ? [name] : []
  })
}

/** A shell evaluates the output, so every value is quoted, although the state file is checked when it is read. */
const LINES: Record<EnvFormat, (name: string, value: string) => string> = {
  sh: (name, value) => `export ${name}=${quoteForSh(value)}`,
  fish: (name, value) => `set -gx ${name} '${value.replace(/[\\']/g, '\\$&')}'`,
  // PowerShell also accepts typographic quotes.
  powershell: (name, value) => `$Env:${name} = '${value.replace(/['\u2018-\u201b]/g, '$&$&')}'`,
  // Read by many tools, and sometimes by a shell.
  dotenv: (name, value) => `${name}=${/^[\w@%+:,./-]*$/.test(value) ? value : quoteForSh(value)}`,
}

export function formatVariables(variables: Readonly<Record<string, string>>, format: EnvFormat): string[] {
  return Object.entries(variables).map(([name, value]) => LINES[format](name, value))
}

const UNSET: Record<Exclude<EnvFormat, 'dotenv'>, (name: string) => string> = {
  sh: name => `unset ${name}`,
  fish: name => `set -e ${name}`,
  powershell: name => `Remove-Item Env:${name}`,
}

export function formatUnset(names: readonly string[], format: EnvFormat): string[] {
  if (format === 'dotenv') {
    throw new InvalidInput('local.env-unset', 'A dotenv file cannot unset variables.', {
      hint: 'Delete the lines, or use --format sh, fish or powershell.',
    })
  }
  return names.map(UNSET[format])
}

function quoteForSh(value: string): string {
  return `'${value.replaceAll("'", `'\\''`)}'`
}
