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

// Values are addresses and plain words: none contains a quote or another character that a shell would interpret.
const LINES: Record<EnvFormat, (name: string, value: string) => string> = {
  sh: (name, value) => `export ${name}='${value}'`,
  fish: (name, value) => `set -gx ${name} '${value}'`,
  powershell: (name, value) => `$Env:${name} = '${value}'`,
  dotenv: (name, value) => `${name}=${value}`,
}

/** The variables as lines in one of the syntaxes. */
export function formatVariables(variables: Readonly<Record<string, string>>, format: EnvFormat): string[] {
  return Object.entries(variables).map(([name, value]) => LINES[format](name, value))
}
