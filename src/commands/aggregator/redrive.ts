import {boolean} from '@oclif/core/flags'
import {NO_LOCAL_LETTERS, redriveJson, redriveLines} from '../../lib/cli/aggregator/dead-letters.js'
import type {AggregatorRedriveResult} from '../../lib/cli/aggregator/results.js'
import {TableCommand} from '../../lib/cli/base/stack-command.js'
import {confirm, yesFlag} from '../../lib/cli/output/confirm.js'
import {EXIT} from '../../lib/cli/output/exit.js'
import {withProgress} from '../../lib/cli/output/progress.js'
import {ZaelError} from '../../lib/core/errors.js'

export default class AggregatorRedrive extends TableCommand<typeof AggregatorRedrive> {
  static override summary = 'Count the usage records in the dead-letter queue'

  static override description =
    'Reads the records of each dead letter from the stream, adds each record to the usage exactly once, and deletes the ' +
    'message. Audit events are archived. Records that left the stream after 24 hours cannot be counted; the command lists ' +
    'the affected usage windows. Windows that may already include a record are skipped and listed. ' +
    'Exits with 6 if anything was not counted.'

  static override flags = {
    discard: boolean({description: 'Also delete messages that cannot be counted, after listing them.'}),
    ...yesFlag,
  }

  static override examples = [
    {command: 'zael aggregator redrive -s prod', description: 'Count all records that are still in the stream'},
    {command: 'zael aggregator redrive -s prod --discard --yes', description: 'Empty the queue without confirmation'},
    {command: 'zael aggregator redrive -s prod --yes --json', description: 'As JSON'},
  ]

  protected async work(): Promise<AggregatorRedriveResult> {
    const {stack, table, awsServices, openStream} = this.stack
    const {discard, yes} = this.flags
    using aws = await awsServices()
    if (!aws) {
      this.print([NO_LOCAL_LETTERS])
      return redriveJson(stack, null, [])
    }
    const [{DeadLetterQueue}, {redrive}] = await Promise.all([
      import('../../lib/infra/dead-letters/queue.js'),
      import('../../lib/infra/dead-letters/redrive.js'),
    ])
    const queue = await DeadLetterQueue.open(aws, stack)
    const total = await queue.count()
    if (total === 0) {
      this.print([`No dead letters in ${queue.name}`])
      return redriveJson(stack, queue.name, [])
    }
    const also = discard ? ', and deletes the messages that cannot be counted' : ''
    await confirm(`This counts the records of about ${total} messages${also}`, {yes})
    const stream = await openStream()
    try {
      const letters = await withProgress(
        (line, signal) =>
          redrive({
            table,
            aws,
            stack,
            queue,
            stream,
            discard,
            signal,
            onProgress: (done, of) => line.bar('Counting', done, of),
          }),
        () =>
          new ZaelError('interrupted', 'redrive.interrupted', 'Interrupted.', {
            hint: `Counted records are not counted again. Resume: zael aggregator redrive -s ${stack}`,
          }),
      )
      this.print(redriveLines(stack, letters))
      const result = redriveJson(stack, queue.name, letters)
      if (!result.complete) process.exitCode = EXIT.negative
      return result
    } finally {
      stream.close()
    }
  }
}
