import {TableMissing} from '../../src/lib/dynamo/errors.js'
import type {Aws} from '../../src/lib/infra/aws/clients.js'
import type {Table} from '../../src/lib/repository/table/table.js'

/** Responses by the name of the command, such as `describeStackEvents`; each gets the command's input. */
export type Responses = Readonly<Record<string, (input: Record<string, unknown>) => unknown>>

/**
 * A fake AWS with given responses, for cases that neither an engine nor moto supports: pages, intermediate states,
 * refusals. All services share the responses; `calls` are the commands in order.
 */
export function fakeAws(responses: Responses): {
  aws: Aws
  calls: {readonly name: string; readonly input: Record<string, unknown>}[]
} {
  const calls: {name: string; input: Record<string, unknown>}[] = []
  const client = {
    async send(command: {constructor: {name: string}; input: Record<string, unknown>}) {
      const [first = '', ...rest] = command.constructor.name.replace(/Command$/, '')
      const name = `${first.toLowerCase()}${rest.join('')}`
      // Copied: a paginator changes its input from page to page.
      calls.push({name, input: {...command.input}})
      const respond = responses[name]
      if (!respond) throw new Error(`No response for ${name}`)
      return respond(command.input)
    },
  }
  // Paginators check the class of their client.
  const as = <T extends object>({prototype}: {readonly prototype: T}): T =>
    Object.assign(Object.create(prototype), client)
  const aws: Aws = {
    isLocal: false,
    region: async () => 'eu-west-1',
    cloudFormation: async () => as((await import('@aws-sdk/client-cloudformation')).CloudFormationClient),
    lambda: async () => as((await import('@aws-sdk/client-lambda')).LambdaClient),
    cloudWatch: async () => as((await import('@aws-sdk/client-cloudwatch')).CloudWatchClient),
    sqs: async () => as((await import('@aws-sdk/client-sqs')).SQSClient),
    sts: async () => as((await import('@aws-sdk/client-sts')).STSClient),
    iam: async () => as((await import('@aws-sdk/client-iam')).IAMClient),
    s3: async () => as((await import('@aws-sdk/client-s3')).S3Client),
    [Symbol.dispose]() {},
  }
  return {aws, calls}
}

/** Returns one response after the other, and then the last one again. */
export function inTurn<T>(...responses: readonly T[]): () => T {
  let at = 0
  return () => responses[Math.min(at++, responses.length - 1)] as T
}

/** Does not wait; `pauses` are the requested times in ms. */
export function instantWait() {
  const pauses: number[] = []
  return {
    pauses,
    sleep: async (ms: number) => {
      if (pauses.push(ms) > 1000) throw new Error('This waits without end')
    },
  }
}

/** A table without items that describes itself; `null`: there is none. */
export function tableLike(description: object | null): Table {
  const transport = {
    async send() {
      if (!description) throw new TableMissing('prod', new Error('no table'))
      return {Table: description}
    },
  }
  return {name: 'prod', transport, backoff: {}} as unknown as Table
}
