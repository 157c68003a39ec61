import {createServer, type ServerResponse} from 'node:http'
import type {AddressInfo} from 'node:net'
import {ExecuteChangeSetCommand} from '@aws-sdk/client-cloudformation'
import {afterEach, beforeEach, describe, expect, it} from 'vitest'
import {type Aws, awsUntilAborted, openAws} from '../../../src/lib/infra/aws/clients.js'
import {sendChange} from '../../../src/lib/infra/aws/send-change.js'
import {readStack} from '../../../src/lib/infra/stack/reader.js'

/* A CloudFormation whose answers the test gives. */
let aws: Aws
let close: () => void
let stop: AbortController
let arrived: ServerResponse[]
let onArrival: () => void

beforeEach(async () => {
  stop = new AbortController()
  arrived = []
  onArrival = () => {}
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      arrived.push(response)
      onArrival()
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  aws = openAws({endpointUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`}, {})
  close = () => {
    server.close()
    server.closeAllConnections()
  }
})

afterEach(() => {
  aws[Symbol.dispose]()
  close()
})

async function execute(onSent?: () => void): Promise<unknown> {
  const client = await aws.cloudFormation()
  const command = new ExecuteChangeSetCommand({ChangeSetName: 'cs'})
  return sendChange(command, options => client.send(command, options), {what: 'It', signal: stop.signal, onSent})
}

const OK = '<ExecuteChangeSetResponse><ExecuteChangeSetResult/></ExecuteChangeSetResponse>'
const THROTTLED = '<ErrorResponse><Error><Code>Throttling</Code><Message>slow down</Message></Error></ErrorResponse>'

describe('a request that changes something', () => {
  it('is not sent after the signal', async () => {
    stop.abort()
    await expect(execute()).rejects.toMatchObject({code: 'dynamo.aborted', maybeApplied: false})
    expect(arrived).toEqual([])
  })

  it('completes when it was under way at the signal', async () => {
    let sent = 0
    onArrival = () => {
      stop.abort()
      arrived[0]?.end(OK)
    }
    await expect(execute(() => sent++)).resolves.toMatchObject({$metadata: {httpStatusCode: 200}})
    expect(sent).toBe(1)
  })

  it('is not sent again after the signal', async () => {
    onArrival = () => {
      stop.abort()
      arrived[0]?.writeHead(400).end(THROTTLED)
    }
    await expect(execute()).rejects.toMatchObject({code: 'dynamo.aborted', maybeApplied: false})
    expect(arrived).toHaveLength(1)
  })

  it('may have been applied when its connection breaks at the signal', async () => {
    onArrival = () => {
      stop.abort()
      arrived[0]?.destroy()
    }
    await expect(execute()).rejects.toMatchObject({code: 'dynamo.aborted', maybeApplied: true})
    expect(arrived).toHaveLength(1)
  })
})

describe('clients for work that a signal ends', () => {
  it('abort an unanswered request, and send no other', async () => {
    const bound = awsUntilAborted(aws, stop.signal)
    onArrival = () => stop.abort()
    await expect(readStack(bound, 'prod')).rejects.toMatchObject({code: 'dynamo.aborted'})
    await expect(readStack(bound, 'prod')).rejects.toMatchObject({code: 'dynamo.aborted'})
    expect(arrived).toHaveLength(1)
  })

  it('do not affect clients for other work', async () => {
    stop.abort()
    awsUntilAborted(aws, stop.signal)
    onArrival = () =>
      arrived[0]
        ?.writeHead(400)
        .end(
          '<ErrorResponse><Error><Code>ValidationError</Code><Message>Stack prod does not exist</Message></Error></ErrorResponse>',
        )
    expect(await readStack(aws, 'prod')).toBeUndefined()
  })
})
