import type {Aws} from '../../src/lib/infra/aws/clients.js'

/** Answers by the name of the command, such as `describeStackEvents`; each gets the command's input. */
export type Answers = Readonly<Record<string, (input: Record<string, unknown>) => unknown>>

/**
 * AWS with given answers, for what neither an engine nor moto can show: pages, states on the way, refusals. All services
 * are one client; `calls` are the commands in their order.
 */
export function fakeAws(answers: Answers): {
  aws: Aws
  calls: {readonly name: string; readonly input: Record<string, unknown>}[]
} {
  const calls: {name: string; input: Record<string, unknown>}[] = []
  const client = {
    async send(command: {constructor: {name: string}; input: Record<string, unknown>}) {
      const [first = '', ...rest] = command.constructor.name.replace(/Command$/, '')
      const name = `${first.toLowerCase()}${rest.join('')}`
      calls.push({name, input: command.input})
      const answer = answers[name]
      if (!answer) throw new Error(`No answer for ${name}`)
      return answer(command.input)
    },
  }
  const service = async () => client as never
  const aws: Aws = {
    isLocal: false,
    region: async () => 'eu-west-1',
    cloudFormation: service,
    lambda: service,
    cloudWatch: service,
    sqs: service,
    sts: service,
    iam: service,
    s3: service,
    [Symbol.dispose]() {},
  }
  return {aws, calls}
}

/** Gives one answer after the other; the last again and again. */
export function inTurn<T>(...answers: readonly T[]): () => T {
  let at = 0
  return () => answers[Math.min(at++, answers.length - 1)] as T
}

/** Waits for nobody; `pauses` are the times that would have passed, in ms. */
export function noWaiting() {
  const pauses: number[] = []
  return {
    pauses,
    sleep: async (ms: number) => {
      if (pauses.push(ms) > 1000) throw new Error('This waits for ever')
    },
  }
}
