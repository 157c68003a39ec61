import {boolean} from '@oclif/core/flags'
import {NO_LOCAL_LETTERS, redriveJson, redriveLines} from '../../lib/cli/aggregator/dead-letters.js'
import type {AggregatorRedriveResult} from '../../lib/cli/aggregator/results.js'
import {TableCommand} from '../../lib/cli/base/stack-command.js'
import {confirm} from '../../lib/cli/output/confirm.js'
import {EXIT} from '../../lib/cli/output/exit.js'
import {withProgress} from '../../lib/cli/output/progress.js'
import {ZaelError} from '../../lib/core/errors.js'

export default class AggregatorRedrive extends TableCommand<typeof AggregatorRedrive> {
  static override summary = 'Count the records that the aggregator gave up on'

  static override description =
    'Reads the records of every dead letter from the stream again and adds them to the usage, each exactly once, then deletes ' +
    'the message. Audit events among them are archived. Hours in which later changes of the same bucket were counted do not ' +
    'tell whether earlier ones were: they are listed and left as they are; days and months are completed from their hours. ' +
    'What has left the stream, after 24 hours, is listed with the windows that lack it. The exit code is 6 when something ' +
    'could not be counted.'

  static override flags = {
    discard: boolean({description: 'Also delete messages that cannot be counted, after they are listed.'}),
    yes: boolean({char: 'y', description: 'Do not ask for confirmation.'}),
  }

  static override examples = [
    {command: 'zael aggregator redrive -s prod', description: 'Count everything that is still in the stream'},
    {command: 'zael aggregator redrive -s prod --discard --yes', description: 'Empty the queue, without a question'},
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
    await confirm(`This counts the records of about ${total} messages again${also}`, {yes})
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
            hint: `What is counted stays counted, once. Go on: zael aggregator redrive -s ${stack}`,
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
