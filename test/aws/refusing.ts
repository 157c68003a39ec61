import {type AwsProxy, type AwsRequest, awsProxy, type Meddling, xmlRefusal} from './aws-proxy.js'

/** Where the name in a signature is not that in a policy. */
const SERVICES: Readonly<Record<string, string>> = {monitoring: 'cloudwatch'}

/** Services that speak REST are told apart by their paths. */
const PATHS: ReadonlyArray<readonly [RegExp, string]> = [
  [/^GET \/2015-03-31\/functions\/[^/]+\/?$/, 'GetFunction'],
  [/^GET \/2015-03-31\/event-source-mappings/, 'ListEventSourceMappings'],
]

/** A request by the name that IAM has for it: `cloudwatch:GetMetricData`. */
export function actionOf({service, operation}: AwsRequest): string {
  const name = PATHS.find(([pattern]) => pattern.test(operation))?.[1] ?? operation
  return `${SERVICES[service] ?? service}:${name}`
}

/** Answers as every service answers somebody without permission. */
export function denial(request: AwsRequest): Meddling {
  const action = actionOf(request)
  const message = `User: arn:aws:iam::123456789012:user/somebody is not authorized to perform: ${action}`
  if (/^(cloudformation|iam|sts):/.test(action)) return xmlRefusal('AccessDenied', message, 403)
  return {instead: {status: 403, body: JSON.stringify({__type: 'AccessDeniedException', message})}}
}

/** A way to moto on which a test refuses what it likes, call by call. */
export interface RefusingProxy extends AwsProxy {
  /** IAM's names of everything that was asked since the last call. */
  takeActions(): string[]
  /** Lets `answer` meddle while `work` is done. */
  during<T>(answer: (action: string, request: AwsRequest) => Meddling | undefined, work: () => Promise<T>): Promise<T>
}

/** Passes everything on, until told otherwise. */
export async function refusingProxy(moto: string): Promise<RefusingProxy> {
  const actions: string[] = []
  let meddle: (action: string, request: AwsRequest) => Meddling | undefined = () => undefined
  const proxy = await awsProxy(moto, request => {
    const action = actionOf(request)
    actions.push(action)
    return meddle(action, request)
  })
  return {
    ...proxy,
    takeActions: () => actions.splice(0),
    async during(answer, work) {
      meddle = answer
      try {
        return await work()
      } finally {
        meddle = () => undefined
      }
    },
  }
}
