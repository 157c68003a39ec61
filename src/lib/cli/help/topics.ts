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
    {term: 'ZAEL_PRINCIPAL', meaning: 'Author of changes in the audit log. Default: your AWS identity, or user@host.'},
    {
      term: 'XDG_CONFIG_HOME',
      meaning: 'Base folder for settings. zael reads zael/config.json in it. Default: ~/.config.',
    },
    {
      term: 'ZAEL_DATA_DIR',
      meaning: 'Base folder for local data. The local stack uses its subfolder "local". Default: XDG_DATA_HOME/zael.',
    },
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
  about: [
    'Form: NAME=AMOUNT[/PERIOD][:BURST]. Default period: min. Default burst: the amount. ":" may replace "=". In `zael ' +
      'limits set`, an amount alone keeps the other parameters of an existing limit.',
    'Amounts are above 0 and may end in k (thousand) or M (million). Money is $5, €5, £5, ¥5 or 5CHF, at most ' +
      '9,007,199.25474; one token is a millionth of a unit.',
    'Periods are sec, min, hour and day, with an optional count: 15min. Calendar periods are hour, day, week (from ' +
      'Monday) and month, with @ZONE and without a count. A session period ends with ! and begins with the first use.',
    'A cron has five fields in double quotes; a time zone may follow (default: UTC). A quota resets when its cron ' +
      'starts to match. A window applies in every minute that its cron matches; the first match wins.',
    'To refuse or admit everything, use `zael resource disable` or `zael resource bypass`. To set a temporary limit, ' +
      'use `zael limits set --for`. In a shell, put single quotes around a limit that contains ", $ or !.',
  ].join('\n\n'),
  entries: [
    {term: 'rpm=100/min', meaning: '100 per minute, refilled continuously'},
    {term: 'tpm=100k', meaning: '100,000 per minute'},
    {term: 'rps=10/sec:50', meaning: '10 per second, bursts of up to 50'},
    {term: 'jobs=500/15min', meaning: '500 per 15 minutes'},
    {term: 'rpd=10k/day@Europe/Berlin', meaning: '10,000 per calendar day in Berlin'},
    {term: 'rpd=10k@"0 9 * * 1-5 Europe/Berlin"', meaning: '10,000, reset at 9:00 on weekdays'},
    {term: 'rpd=10k@"0 9 * * *; 0 18 * * *"', meaning: '10,000, reset at 9:00 and 18:00 UTC'},
    {term: 'session=200/5h!', meaning: '200 within 5 hours of the first use'},
    {term: 'usd=$500/month@UTC', meaning: '500 US dollars per calendar month'},
    {term: 'parallel=20/inflight', meaning: 'at most 20 requests in flight, over all processes'},
    {term: 'rpm=100,soft', meaning: 'counted, but never refuses'},
    {term: 'tpm=90k,x0.1@"* 22,23 * * *"', meaning: 'a tenth from 22:00 to 24:00 UTC'},
    {term: 'tpm=90k,200k:300k@"* 9-16 * * 1-5"', meaning: '200,000, burst 300,000, in office hours'},
    {term: 'rpd=10k/day@UTC,5k@"* * * * 6,7"', meaning: 'half the quota on weekends'},
  ],
}

export const HELP_TOPICS: readonly HelpTopic[] = [limitSyntax, environment, exitCodes]
