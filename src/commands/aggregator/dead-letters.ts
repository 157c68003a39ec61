import {boolean} from '@oclif/core/flags'
import {letterJson, letterListing, NO_LOCAL_LETTERS} from '../../lib/cli/aggregator/dead-letters.js'
import type {AggregatorDeadLettersResult} from '../../lib/cli/aggregator/results.js'
import {TableCommand} from '../../lib/cli/base/stack-command.js'
import {listFlags, pageFlags} from '../../lib/cli/output/listing.js'

/** Visibility timeout, in case the command dies before it releases the messages. */
const HIDDEN_SECONDS = 30

export default class AggregatorDeadLetters extends TableCommand<typeof AggregatorDeadLetters> {
  static override summary = 'List usage records that failed for 6 hours'

  static override description =
    'Lambda retries failed records for 6 hours. It then sends their stream position to the dead-letter queue. The stream ' +
    'keeps records for 24 hours; until then, `zael aggregator redrive` can count them. This command changes nothing. It ' +
    'hides the messages from other readers for a moment.'

  static override flags = {
    ...listFlags,
    limit: pageFlags.limit,
    all: boolean({description: 'Show all rows.', exclusive: ['limit'], helpGroup: 'LIST'}),
  }

  static override examples = [
    {
      command: 'zael aggregator dead-letters -s prod',
      description: 'Failed records and their redrive deadline',
    },
    {command: 'zael aggregator dead-letters -s prod --all --json', description: 'All dead letters, as JSON'},
  ]

  protected async work(): Promise<AggregatorDeadLettersResult> {
    const {stack, awsServices} = this.stack
    using aws = await awsServices()
    if (!aws) {
      this.print([NO_LOCAL_LETTERS])
      return {stack, queue: null, letters: [], total: 0, next: null}
    }
    const {DeadLetterQueue} = await import('../../lib/infra/dead-letters/queue.js')
    const queue = await DeadLetterQueue.open(aws, stack)
    const total = await queue.count()
    const letters = await queue.peek(HIDDEN_SECONDS, this.flags.all ? undefined : this.flags.limit)
    await this.list(letterListing(letters, queue.name))
    if (letters.length < total) this.logToStderr(`Printed ${letters.length} of ${total} messages. Add --all.`)
    return {
      stack,
      queue: queue.name,
      letters: letters.map(letterJson),
      total: Math.max(total, letters.length),
      next: null,
    }
  }
}
