import {GetFunctionConfigurationCommand, UpdateFunctionCodeCommand} from '@aws-sdk/client-lambda'
import {ZaelError} from '../../core/errors.js'
import type {Aws} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'
import {poll, type WaitOptions} from '../aws/poll.js'
import type {LambdaPackage} from './package.js'

/** What became of the code of a function. */
export interface CodeUpdate {
  /** False when the function ran this very code already. */
  readonly updated: boolean
  readonly sha256Base64: string
}

/** Hash of the code that a function runs, in base64; `null` when there is no such function. */
export async function readCodeHash(aws: Aws, FunctionName: string): Promise<string | null> {
  return callAws(`read the code hash of function "${FunctionName}"`, async () => {
    const client = await aws.lambda()
    try {
      return (await client.send(new GetFunctionConfigurationCommand({FunctionName}))).CodeSha256 ?? null
    } catch (error) {
      if (error instanceof Error && error.name === 'ResourceNotFoundException') return null
      throw error
    }
  })
}

/** Gives a function its code, unless it has it, and waits until the function runs it. */
export async function updateFunctionCode(
  aws: Aws,
  functionName: string,
  code: LambdaPackage,
  waiting: WaitOptions,
): Promise<CodeUpdate> {
  return callAws(`update the code of function "${functionName}"`, async () => {
    const client = await aws.lambda()
    // A function that is still being made or changed refuses the next change.
    const current = await whenSettled(aws, functionName, waiting)
    if (current.CodeSha256 === code.sha256Base64) return {updated: false, sha256Base64: code.sha256Base64}
    await client.send(
      new UpdateFunctionCodeCommand({
        FunctionName: functionName,
        ZipFile: code.zip,
        // Left out it would become that of x86.
        ...(current.Architectures === undefined ? {} : {Architectures: current.Architectures}),
        Publish: false,
      }),
    )
    const {CodeSha256 = ''} = await whenSettled(aws, functionName, waiting)
    if (CodeSha256 !== code.sha256Base64) throw otherCode(functionName)
    return {updated: true, sha256Base64: CodeSha256}
  })
}

/** The function's settings once no change of it is under way. */
async function whenSettled(aws: Aws, FunctionName: string, waiting: WaitOptions) {
  const client = await aws.lambda()
  return poll(waiting, async () => {
    const now = await client.send(new GetFunctionConfigurationCommand({FunctionName}))
    if (now.LastUpdateStatus === 'Failed' || now.State === 'Failed') {
      const reason = now.LastUpdateStatusReason ?? now.StateReason ?? 'no reason is given'
      throw new ZaelError('failed', 'lambda.failed', `Function "${FunctionName}" could not be updated: ${reason}`, {
        hint: 'Mend what it says, then run the same command again.',
        details: {functionName: FunctionName, reason},
      })
    }
    return now.LastUpdateStatus === 'InProgress' || now.State === 'Pending' ? undefined : now
  })
}

function otherCode(functionName: string): ZaelError {
  return new ZaelError('conflict', 'lambda.raced', `Somebody else changed the code of "${functionName}" meanwhile.`, {
    hint: 'Run the same command again when nobody else deploys.',
    details: {functionName},
  })
}
