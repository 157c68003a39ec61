import {GetEventSourceMappingCommand} from '@aws-sdk/client-lambda'
import type {Aws} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'
import type {StackResource} from '../stack/reader.js'
import {LOGICAL_ID} from '../stack/template.js'
import type {RunningCode} from './planned-code.js'

/**
 * Whether the function or its event source was deleted without CloudFormation, which believes that they exist: usage is
 * not counted, and a change set that compares templates would not create them again.
 */
export async function findGoneParts(
  aws: Aws,
  resources: readonly StackResource[],
  running: RunningCode | null,
): Promise<boolean> {
  const physicalId = (id: string) => resources.find(({logicalId}) => logicalId === id)?.physicalId
  if (physicalId(LOGICAL_ID.function) && running === null) return true
  const UUID = physicalId(LOGICAL_ID.mapping)
  if (!UUID) return false
  return callAws(`read the event source mapping ${UUID}`, async () => {
    try {
      await (await aws.lambda()).send(new GetEventSourceMappingCommand({UUID}))
      return false
    } catch (error) {
      if (error instanceof Error && error.name === 'ResourceNotFoundException') return true
      throw error
    }
  })
}
