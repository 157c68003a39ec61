import {boolean, integer, option, string} from '@oclif/core/flags'
import {BaseCommand} from '../../lib/cli/base/base-command.js'
import {confirm, yesFlag} from '../../lib/cli/output/confirm.js'
import {stateJson, upHints, upLines} from '../../lib/cli/stack/local-presenter.js'
import type {LocalUpResult} from '../../lib/cli/stack/results.js'

const PROJECTIONS = {'keys-only': 'KEYS_ONLY', all: 'ALL'} as const

export default class LocalUp extends BaseCommand<typeof LocalUp> {
  static override summary = 'Start a stack on this machine, without Docker or AWS'

  static override description =
    'Starts a DynamoDB-compatible engine, creates the table and the namespace "default", and processes the stream as ' +
    'Lambda does on AWS. The stack runs in the background under the name "local". Running the command again is safe.'

  static override flags = {
    engine: option({
      options: ['dynoxide', 'dynamodb-local', 'docker'] as const,
      description: 'Engine to run. Default: the first one that runs on this machine and can read the data.',
    })(),
    port: integer({
      min: 1,
      max: 65_535,
      description: 'Port on 127.0.0.1. Default: the previous port, or a free one.',
      helpValue: 'N',
    }),
    'data-dir': string({description: 'Folder for the data.', helpValue: 'DIR'}),
    'in-memory': boolean({description: 'Keep the data in memory only.', exclusive: ['data-dir']}),
    reset: boolean({description: 'Delete the existing data first; stops a running stack.'}),
    'resource-index': option({
      options: ['keys-only', 'all'] as const,
      description: 'Attributes in index GSI2 of a new table. Python clients that query by resource need "all".',
    })(),
    'no-aggregator': boolean({description: 'Do not process the stream: no usage records, no aggregator refills.'}),
    ...yesFlag,
  }

  static override examples = [
    {command: 'zael local up', description: 'Start the stack unless it is running'},
    {command: 'zael local up --in-memory --port 8000', description: 'For a test run'},
    {command: 'zael local up --reset --yes', description: 'Start again without the old data'},
  ]

  async run(): Promise<LocalUpResult> {
    const {engine, port, 'data-dir': dataDir, 'in-memory': inMemory, reset, yes, ...flags} = this.flags
    const [{bringUp, dataDirFor}, {hasData}, {findStateDir}] = await Promise.all([
      import('../../lib/local/up.js'),
      import('../../lib/local/state-dir/data-dir.js'),
      import('../../lib/local/state-dir/state.js'),
    ])
    const stateDir = findStateDir()
    const doomed = dataDirFor(stateDir, {dataDir})
    if (reset && !inMemory && (await hasData(doomed))) await confirm(`This deletes all data in ${doomed}`, {yes})
    const {version} = this.config
    const resourceIndex = flags['resource-index'] && PROJECTIONS[flags['resource-index']]
    const options = {
      engine,
      port,
      dataDir,
      inMemory,
      reset,
      resourceIndex,
      aggregator: !flags['no-aggregator'],
      version,
    }
    const result = await bringUp(stateDir, options)
    this.print(upLines(result))
    for (const line of upHints(result.state)) this.logToStderr(line)
    return {started: result.started, mended: result.recovered, ...stateJson(result.state)}
  }
}
