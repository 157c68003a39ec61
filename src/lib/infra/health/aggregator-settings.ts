import {GetFunctionCommand} from '@aws-sdk/client-lambda'
import {parseLambdaSettings} from '../../aggregator/environment.js'
import {ZaelError} from '../../core/errors.js'
import type {Aws} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'

/** The settings of the deployed aggregator; throws when it is not zael's. */
export async function readAggregatorSettings(aws: Aws, stack: string): Promise<ReturnType<typeof parseLambdaSettings>> {
  const name = `${stack}-aggregator`
  const found = await callAws(`read function "${name}"`, async () => {
    const client = await aws.lambda()
    try {
      return await client.send(new GetFunctionCommand({FunctionName: name}))
    } catch (error) {
      if (error instanceof Error && error.name === 'ResourceNotFoundException') return undefined
      throw error
    }
  })
  if (!found) {
    throw new ZaelError('notFound', 'deadletters.function', `There is no function "${name}".`, {
      hint: `Its settings tell how to count; see: zael status --stack ${stack}`,
      details: {stack, function: name},
    })
  }
  const {Runtime: runtime = '', Environment: environment} = found.Configuration ?? {}
  if (runtime.startsWith('python')) {
    throw new ZaelError('conflict', 'deadletters.python', `"${name}" is the aggregator of the Python system.`, {
      hint: 'It leaves no marks of what it has counted, so its records cannot be counted again without counting some twice.',
      details: {stack, function: name, runtime},
    })
  }
  return parseLambdaSettings(environment?.Variables ?? {})
}
