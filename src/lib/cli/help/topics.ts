import {EXIT} from '../../core/errors.js'

/** A text about something that is no command, shown by `zael help NAME`. */
export interface HelpTopic {
  readonly name: string
  readonly summary: string
  readonly about: string
  readonly entries: ReadonlyArray<{readonly term: string; readonly meaning: string}>
}

const EXIT_MEANINGS: Record<keyof typeof EXIT, string> = {
  ok: 'It worked.',
  failed: 'The operation failed, or zael has a bug.',
  usage: 'The command line was wrong: an unknown command or flag, a missing or unreadable value.',
  notFound: 'Something that was named does not exist.',
  access: 'Credentials are missing, or they do not permit this.',
  conflict: 'Someone else changed it first, the versions do not fit, or a migration is needed.',
  negative:
    'The check worked and its answer is no: work is pending, there is drift, a limit is exceeded, a stack is degraded or not running.',
  interrupted: 'Interrupted with Ctrl-C.',
  terminated: 'Terminated by SIGTERM.',
}

const exitCodes: HelpTopic = {
  name: 'exit-codes',
  summary: 'What the exit code of a command means',
  about: 'Scripts can rely on these numbers.',
  entries: Object.entries(EXIT).map(([kind, code]) => ({
    term: String(code),
    meaning: EXIT_MEANINGS[kind as keyof typeof EXIT],
  })),
}

const environment: HelpTopic = {
  name: 'environment',
  summary: 'Environment variables zael pays attention to',
  about:
    'A flag wins over a variable, and a ZAEL_ variable over settings files; see `zael config show`. Credentials are found the way the AWS SDK finds them: variables, profile files, SSO, roles.',
  entries: [
    {term: 'ZAEL_STACK', meaning: 'Stack to work on when --stack is not given; "local" is the one of `zael local up`.'},
    {term: 'ZAEL_NAMESPACE', meaning: 'Tenant to work in when --namespace is not given.'},
    {term: 'ZAEL_REGION', meaning: 'Region of the table when --region is not given.'},
    {term: 'ZAEL_PROFILE', meaning: 'Profile with credentials and region when --profile is not given.'},
    {term: 'ZAEL_ENDPOINT_URL', meaning: 'Where to send DynamoDB requests when --endpoint-url is not given.'},
    {term: 'ZAEL_OUTPUT', meaning: 'table, json, csv or yaml when --output is not given.'},
    {
      term: 'XDG_CONFIG_HOME',
      meaning: 'Where programs keep settings; ~/.config when not set. Yours: zael/config.json.',
    },
    {term: 'ZAEL_DATA_DIR', meaning: 'Folder that holds the local stack; otherwise XDG_DATA_HOME/zael.'},
    {term: 'XDG_DATA_HOME', meaning: 'Where programs keep data; ~/.local/share when not set.'},
    {term: 'ZAEL_DEBUG', meaning: 'Set to 1 to see the stack trace of an error.'},
    {term: 'NO_COLOR', meaning: 'Set to anything to print without colours.'},
    {term: 'FORCE_COLOR', meaning: 'Set to 1 to print colours even into a pipe, to 0 for none.'},
    {term: 'AWS_REGION', meaning: 'Region of the table, unless zael has a setting of its own.'},
    {term: 'AWS_DEFAULT_REGION', meaning: 'The same, when AWS_REGION is not set.'},
    {term: 'AWS_PROFILE', meaning: 'Profile that supplies credentials, and the region if no variable does.'},
    {term: 'AWS_ENDPOINT_URL_DYNAMODB', meaning: 'Where to send DynamoDB requests instead of to AWS.'},
    {term: 'AWS_ENDPOINT_URL', meaning: 'The same for every AWS service; the one above wins.'},
  ],
}

const limitSyntax: HelpTopic = {
  name: 'limit-syntax',
  summary: 'How to write a limit, such as rpm=100/min',
  about:
    'A limit is NAME=RATE[/PERIOD][:BURST]. Without a period the rate is per minute, without a burst the bucket holds as much as the rate. ' +
    'A ":" may stand for the "=". Amounts may end in k (thousand) or M (million). ' +
    'Periods are sec, min, hour and day, with a number in front for several.',
  entries: [
    {term: 'tpm=100000', meaning: '100,000 per minute'},
    {term: 'rpm=100/min', meaning: '100 per minute'},
    {term: 'rpm:100', meaning: 'the same'},
    {term: 'tpd=1M/day', meaning: '1,000,000 per day'},
    {term: 'rpm=10/sec:50', meaning: '10 per second, after a burst of up to 50'},
    {term: 'custom=500/15min', meaning: '500 every 15 minutes'},
  ],
}

/** All help topics, in the order the root help names them. */
export const HELP_TOPICS: readonly HelpTopic[] = [limitSyntax, environment, exitCodes]
