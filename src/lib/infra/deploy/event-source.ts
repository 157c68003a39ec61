import {GetEventSourceMappingCommand} from '@aws-sdk/client-lambda'
import type {Aws} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'
import {poll, type WaitOptions} from '../aws/poll.js'

const ON_THE_WAY = new Set(['Creating', 'Enabling', 'Updating', 'Disabling'])

/** The state of the mapping that feeds the function, once it rests: Enabled, unless somebody has disabled it. */
export async function waitForEventSource(aws: Aws, UUID: string, waiting: WaitOptions): Promise<string> {
  return callAws(`look at the event source mapping ${UUID}`, async () => {
    const client = await aws.lambda()
    return poll(waiting, async () => {
      const {State = ''} = await client.send(new GetEventSourceMappingCommand({UUID}))
      return ON_THE_WAY.has(State) ? undefined : State
    })
  })
}
