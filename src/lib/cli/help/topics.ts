import {EXIT} from '../output/exit.js'

export interface HelpTopic {
  readonly name: string
  readonly summary: string
  readonly about: string
  readonly entries: ReadonlyArray<{readonly term: string; readonly meaning: string}>
}

const EXIT_MEANINGS: Record<keyof typeof EXIT, string> = {
  ok: 'Success.',
  failed: 'The operation failed, or zael has a bug.',
  usage: 'Wrong usage: an unknown command or flag, or a missing or invalid value.',
  notFound: 'The stack, namespace, entity or other object does not exist.',
  access: 'Credentials are missing or lack a permission.',
  conflict: 'Another client changed the data first, versions are incompatible, or a migration is needed.',
  negative:
    'A check found a problem: pending work, drift, an exceeded limit, or a stack that is degraded or not running.',
  interrupted: 'Interrupted with Ctrl-C.',
  terminated: 'Terminated by SIGTERM.',
}

const exitCodes: HelpTopic = {
  name: 'exit-codes',
  summary: 'Meaning of exit codes',
  about: 'Scripts can rely on these codes.',
  entries: Object.entries(EXIT).map(([kind, code]) => ({
    term: String(code),
    meaning: EXIT_MEANINGS[kind as keyof typeof EXIT],
  })),
}

const environment: HelpTopic = {
  name: 'environment',
  summary: 'Environment variables that zael reads',
  about:
    'Flags take precedence over variables, and ZAEL_ variables over settings files. `zael config show` shows all settings. The AWS SDK finds credentials as usual: variables, profile files, SSO, roles.',
  entries: [
    {term: 'ZAEL_STACK', meaning: 'Default for --stack. "local" is the stack that `zael local up` starts.'},
    {term: 'ZAEL_NAMESPACE', meaning: 'Default for --namespace.'},
    {term: 'ZAEL_REGION', meaning: 'Default for --region.'},
    {term: 'ZAEL_PROFILE', meaning: 'Default for --profile.'},
    {term: 'ZAEL_ENDPOINT_URL', meaning: 'Default for --endpoint-url.'},
    {term: 'ZAEL_OUTPUT', meaning: 'Default for --output: table, json, jsonl, csv or yaml.'},
    {
      term: 'XDG_CONFIG_HOME',
      meaning: 'Base folder for settings. zael reads zael/config.json in it. Default: ~/.config.',
    },
    {term: 'ZAEL_DATA_DIR', meaning: 'Folder of the local stack. Default: XDG_DATA_HOME/zael.'},
    {term: 'XDG_DATA_HOME', meaning: 'Base folder for data. Default: ~/.local/share.'},
    {term: 'ZAEL_DEBUG', meaning: 'Set to 1 to print the stack trace of an error.'},
    {term: 'NO_COLOR', meaning: 'Set to any value to print without colours.'},
    {term: 'FORCE_COLOR', meaning: 'Set to 1 to print colours even into a pipe, or to 0 to print none.'},
    {term: 'AWS_REGION', meaning: 'AWS region, if no zael setting names one.'},
    {term: 'AWS_DEFAULT_REGION', meaning: 'AWS region, if AWS_REGION is not set.'},
    {term: 'AWS_PROFILE', meaning: 'AWS profile for credentials, and for the region if no variable sets it.'},
    {term: 'AWS_ENDPOINT_URL_DYNAMODB', meaning: 'URL for DynamoDB requests.'},
    {
      term: 'AWS_ENDPOINT_URL',
      meaning: 'URL for requests to all AWS services. AWS_ENDPOINT_URL_DYNAMODB takes precedence.',
    },
  ],
}

const limitSyntax: HelpTopic = {
  name: 'limit-syntax',
  summary: 'How to write a limit, such as rpm=100/min',
  about:
    'A limit is NAME=RATE[/PERIOD][:BURST]. The period defaults to a minute, the burst to the rate. ' +
    '":" may replace "=". Amounts may end in k (thousand) or M (million). ' +
    'Periods are sec, min, hour and day, optionally with a number in front, such as 15min. ' +
    'With @ and a time zone it is a quota that is full again when the hour, day, week (Monday) or month begins there; with ' +
    '@ and a cron of five fields in double quotes, whenever the cron begins to match (UTC, unless a zone follows in the ' +
    'quotes). With ! after the period it is a quota that is full again that long after its first use. Further parts follow ' +
    'commas: soft counts without refusing; x0.5@"CRON" and RATE[/PERIOD][:BURST]@"CRON" apply in all minutes that the cron ' +
    'matches, the first one that does. An amount of money is $5, €5, £5, ¥5 or 5CHF: tokens are then millionths of it, up ' +
    'to 9,007,199.25474. In a shell, put a limit with quotes, $ or ! in single quotes.',
  entries: [
    {term: 'tpm=100000', meaning: '100,000 per minute'},
    {term: 'rpm=100/min', meaning: '100 per minute'},
    {term: 'rpm:100', meaning: 'the same'},
    {term: 'tpd=1M/day', meaning: '1,000,000 per day'},
    {term: 'rpm=10/sec:50', meaning: '10 per second, with bursts of up to 50'},
    {term: 'custom=500/15min', meaning: '500 every 15 minutes'},
    {term: 'rpd=10k/day@Europe/Berlin', meaning: '10,000 per calendar day in Berlin'},
    {term: 'rpd=10k@"0 9 * * 1-5 Europe/Berlin"', meaning: '10,000, again at 9:00 in Berlin on weekdays'},
    {term: 'session=200/5h!', meaning: '200 in 5 hours from the first use'},
    {term: 'usd=$500/month@UTC', meaning: '500 US dollars per calendar month'},
    {term: 'rpm=100/min,soft', meaning: '100 per minute, counted but never refused'},
    {term: 'tpm=100k/min,x0.1@"* 22,23 * * * Europe/Berlin"', meaning: 'a tenth of it from 22:00 to 24:00 in Berlin'},
    {term: 'tpm=100k/min,200k/min:300k@"* 9-16 * * 1-5"', meaning: 'more from 9:00 to 17:00 UTC on weekdays'},
  ],
}

export const HELP_TOPICS: readonly HelpTopic[] = [limitSyntax, environment, exitCodes]
