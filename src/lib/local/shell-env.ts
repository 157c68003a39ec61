import {LOCAL_STACK} from './state-dir/state.js'

/** Syntaxes in which variables can be written. */
type EnvFormat = 'sh' | 'fish' | 'powershell' | 'dotenv'

/** Variables that point zael, its library and every AWS SDK at a local engine. */
export function localVariables(endpoint: string): Record<string, string> {
  return {
    ZAEL_STACK: LOCAL_STACK,
    AWS_ENDPOINT_URL_DYNAMODB: endpoint,
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'local',
    AWS_SECRET_ACCESS_KEY: 'local',
  }
}

/** The output is evaluated by a shell, so every value is quoted, although the state file is checked when it is read. */
const LINES: Record<EnvFormat, (name: string, value: string) => string> = {
  sh: (name, value) => `export ${name}=${quoteForSh(value)}`,
  fish: (name, value) => `set -gx ${name} '${value.replace(/[\\']/g, '\\$&')}'`,
  // PowerShell also takes typographic quotes as quotes.
  powershell: (name, value) => `$Env:${name} = '${value.replace(/['\u2018-\u201b]/g, '$&$&')}'`,
  // Read by many tools, and sometimes by a shell.
  dotenv: (name, value) => `${name}=${/^[\w@%+:,./-]*$/.test(value) ? value : quoteForSh(value)}`,
}

/** The variables as lines in one of the syntaxes. */
export function formatVariables(variables: Readonly<Record<string, string>>, format: EnvFormat): string[] {
  return Object.entries(variables).map(([name, value]) => LINES[format](name, value))
}

function quoteForSh(value: string): string {
  return `'${value.replaceAll("'", `'\\''`)}'`
}
