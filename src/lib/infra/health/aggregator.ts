import {
  type EventSourceMappingConfiguration,
  GetFunctionCommand,
  paginateListEventSourceMappings,
} from '@aws-sdk/client-lambda'
import type {Aws} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'
import {lambdaPackage} from '../stack/lambda-package.js'
import {tagOf} from '../stack/reader.js'
import type {AggregatorPart, MappingPart} from './parts.js'

/** Reads the function of a stack; `null` when there is none. */
export async function readAggregator(aws: Aws, name: string): Promise<AggregatorPart | null> {
  const found = await callAws(`read function "${name}"`, async () => {
    const client = await aws.lambda()
    try {
      return await client.send(new GetFunctionCommand({FunctionName: name}))
    } catch (error) {
      if (isMissing(error)) return undefined
      throw error
    }
  })
  if (!found) return null
  const {Configuration: configuration = {}, Tags: tags = {}} = found
  const {sha256Base64} = await lambdaPackage()
  const isPython = configuration.Runtime?.startsWith('python') ?? false
  return {
    name,
    state: configuration.State ?? 'Active',
    runtime: configuration.Runtime ?? null,
    memoryMb: configuration.MemorySize ?? null,
    codeBytes: configuration.CodeSize ?? 0,
    codeSha256: configuration.CodeSha256 ?? null,
    isOurCode: isPython ? null : configuration.CodeSha256 === sha256Base64,
    version: tagOf(tags, 'lambda-version') ?? tagOf(tags, 'version'),
  }
}

/** Reads the event source mapping between a stream and a function; `null` when there is none. */
export async function readMapping(aws: Aws, functionName: string, streamArn: string): Promise<MappingPart | null> {
  const found = await callAws(`read the event source mappings of "${functionName}"`, async () => {
    const client = await aws.lambda()
    const mappings: EventSourceMappingConfiguration[] = []
    for await (const page of paginateListEventSourceMappings({client}, {EventSourceArn: streamArn})) {
      mappings.push(...(page.EventSourceMappings ?? []))
    }
    return mappings.find(({FunctionArn: arn}) => arn?.split(':')[6] === functionName)
  })
  if (!found) return null
  return {
    id: found.UUID ?? '',
    state: found.State ?? '',
    stateReason: found.StateTransitionReason ?? null,
    lastResult: found.LastProcessingResult ?? null,
    filters: (found.FilterCriteria?.Filters ?? []).flatMap(({Pattern}) => Pattern ?? []),
    failureDestination: found.DestinationConfig?.OnFailure?.Destination ?? null,
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && error.name === 'ResourceNotFoundException'
}
