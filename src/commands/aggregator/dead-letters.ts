import {boolean} from '@oclif/core/flags'
import {letterJson, letterListing, NO_LOCAL_LETTERS} from '../../lib/cli/aggregator/dead-letters.js'
import type {AggregatorDeadLettersResult} from '../../lib/cli/aggregator/results.js'
import {TableCommand} from '../../lib/cli/base/stack-command.js'
import {listFlags, pageFlags} from '../../lib/cli/output/listing.js'

/** Visibility timeout, in case the command dies before it releases the messages. */
const HIDDEN_SECONDS = 30

export default class AggregatorDeadLetters extends TableCommand<typeof AggregatorDeadLetters> {
  static override summary = 'List the records that the aggregator gave up on'

  static override description =
    'Lambda gives up on records that could not be processed for 6 hours, and sends their place in the stream to a queue. The ' +
    'stream keeps them for 24 hours; until then `zael aggregator redrive` can count them. Changes nothing: the messages ' +
    'stay in the queue, but nobody else can receive them for a moment.'

  static override flags = {
    ...listFlags,
    limit: pageFlags.limit,
    all: boolean({description: 'Show all rows.', exclusive: ['limit'], helpGroup: 'LIST'}),
  }

  static override examples = [
    {
      command: 'zael aggregator dead-letters -s prod',
      description: 'What was given up, and until when it can be counted',
    },
    {command: 'zael aggregator dead-letters -s prod --all --json', description: 'All of it, as JSON'},
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
    return {
      stack,
      queue: queue.name,
      letters: letters.map(letterJson),
      total: Math.max(total, letters.length),
      next: null,
    }
  }
}
