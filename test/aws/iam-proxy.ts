import {type AwsProxy, type AwsRequest, awsProxy, type Intervention, xmlRefusal} from './aws-proxy.js'

/** Services whose name in a signature differs from the one in policies. */
const SERVICES: Readonly<Record<string, string>> = {monitoring: 'cloudwatch'}

/** Operations of REST services, by their paths. */
const PATHS: ReadonlyArray<readonly [RegExp, string]> = [
  [/^GET \/2015-03-31\/functions\/[^/]+\/?$/, 'GetFunction'],
  [/^GET \/2015-03-31\/functions\/[^/]+\/configuration$/, 'GetFunctionConfiguration'],
  [/^PUT \/2015-03-31\/functions\/[^/]+\/code$/, 'UpdateFunctionCode'],
  [/^GET \/2015-03-31\/event-source-mappings\/[^/?]+$/, 'GetEventSourceMapping'],
  [/^GET \/2015-03-31\/event-source-mappings/, 'ListEventSourceMappings'],
  [/^HEAD \/[^/]+\/?$/, 'ListBucket'],
  [/^GET \/[^/]+\/?\?versions/, 'ListBucketVersions'],
  [/^POST \/[^/]+\/?\?delete/, 'DeleteObject'],
  [/^DELETE \/[^/]+\/?$/, 'DeleteBucket'],
  [/^PUT \/[^/]+\/zael\//, 'PutObject'],
]

/** The IAM action of a request: `cloudwatch:GetMetricData`. */
function actionOf({service, operation}: AwsRequest): string {
  const name = PATHS.find(([pattern]) => pattern.test(operation))?.[1] ?? operation
  return `${SERVICES[service] ?? service}:${name}`
}

/** The response of a service to a caller without permission. */
export function denial(request: AwsRequest): Intervention {
  const action = actionOf(request)
  const message = `User: arn:aws:iam::123456789012:user/ann is not authorized to perform: ${action}`
  if (/^(cloudformation|iam|sts):/.test(action)) return xmlRefusal('AccessDenied', message, 403)
  return {instead: {status: 403, body: JSON.stringify({__type: 'AccessDeniedException', message})}}
}

/** A proxy in front of moto on which a test can change calls by their IAM action. */
export interface IamProxy extends AwsProxy {
  /** The IAM actions of all requests since the last call. */
  takeActions(): string[]
  /** Applies `rule` while `work` runs. */
  during<T>(rule: (action: string, request: AwsRequest) => Intervention | undefined, work: () => Promise<T>): Promise<T>
}

/** Forwards everything, except during `during`. */
export async function iamProxy(moto: string): Promise<IamProxy> {
  const actions: string[] = []
  let intervene: (action: string, request: AwsRequest) => Intervention | undefined = () => undefined
  const proxy = await awsProxy(moto, request => {
    const action = actionOf(request)
    actions.push(action)
    return intervene(action, request)
  })
  return {
    ...proxy,
    takeActions: () => actions.splice(0),
    async during(rule, work) {
      intervene = rule
      try {
        return await work()
      } finally {
        intervene = () => undefined
      }
    },
  }
}
