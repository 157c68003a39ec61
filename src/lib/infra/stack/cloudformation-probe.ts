import {DescribeStacksCommand} from '@aws-sdk/client-cloudformation'
import {ZaelError} from '../../core/errors.js'
import type {Aws} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'
import {isStackMissing} from './reader.js'

/** Responses of CloudFormation or an emulator, and errors from before a request is sent. */
const REFUSALS = new Set(['aws.denied', 'aws.credentials', 'aws.throttled', 'aws.clock', 'aws.region'])

/** An emulator has CloudFormation; a plain DynamoDB engine responds with another error. Throws without a response. */
export async function hasCloudFormation(aws: Aws): Promise<boolean> {
  try {
    await callAws('find out what answers at the endpoint', async () => {
      const client = await aws.cloudFormation()
      await client.send(new DescribeStacksCommand({StackName: 'no-such-stack'}))
    })
    return true
  } catch (error) {
    if (!(error instanceof ZaelError)) throw error
    if (isStackMissing(error.cause)) return true
    if (REFUSALS.has(error.code)) return true
    const {$metadata: {httpStatusCode} = {}} = (error.cause ?? {}) as {$metadata?: {httpStatusCode?: number}}
    if (httpStatusCode === undefined) throw error
    return false
  }
}
