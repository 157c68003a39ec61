import {GetFunctionConfigurationCommand, UpdateFunctionCodeCommand} from '@aws-sdk/client-lambda'
import {ZaelError} from '../../core/errors.js'
import type {Aws} from '../aws/clients.js'
import {callAws, callUnlessMissing} from '../aws/errors.js'
import {poll, type WaitOptions} from '../aws/send-change.js'
import type {LambdaPackage} from '../stack/artifacts.js'

interface FunctionCode {
  readonly sha256Base64: string
  readonly runtime: string | null
}

export async function readCode(aws: Aws, FunctionName: string): Promise<FunctionCode | null> {
  const found = await callUnlessMissing(`read the code hash of function "${FunctionName}"`, async () => {
    return (await aws.lambda()).send(new GetFunctionConfigurationCommand({FunctionName}))
  })
  return found?.CodeSha256 === undefined ? null : {sha256Base64: found.CodeSha256, runtime: found.Runtime ?? null}
}

export async function updateFunctionCode(
  aws: Aws,
  functionName: string,
  code: LambdaPackage,
  wait: WaitOptions,
): Promise<{readonly updated: boolean; readonly sha256Base64: string}> {
  return callAws(`update the code of function "${functionName}"`, async () => {
    const client = await aws.lambda()
    // Lambda rejects an update while another one is in progress.
    const current = await waitForUpdates(aws, functionName, wait)
    if (current.CodeSha256 === code.sha256Base64) return {updated: false, sha256Base64: code.sha256Base64}
    await client.send(
      new UpdateFunctionCodeCommand({
        FunctionName: functionName,
        ZipFile: code.zip,
        // Without it Lambda would reset the architecture to x86.
        ...(current.Architectures === undefined ? {} : {Architectures: current.Architectures}),
        Publish: false,
      }),
    )
    const {CodeSha256 = ''} = await waitForUpdates(aws, functionName, wait)
    if (CodeSha256 !== code.sha256Base64) throw changedMeanwhile(functionName)
    return {updated: true, sha256Base64: CodeSha256}
  })
}

async function waitForUpdates(aws: Aws, FunctionName: string, wait: WaitOptions) {
  const client = await aws.lambda()
  return poll(wait, async () => {
    const configuration = await client.send(new GetFunctionConfigurationCommand({FunctionName}))
    const {LastUpdateStatus, State} = configuration
    if (LastUpdateStatus === 'Failed' || State === 'Failed') {
      const reason = configuration.LastUpdateStatusReason ?? configuration.StateReason ?? 'no reason given'
      throw new ZaelError('failed', 'lambda.failed', `Function "${FunctionName}" could not be updated: ${reason}`, {
        hint: 'Fix the cause, then run the same command again.',
        details: {functionName: FunctionName, reason},
      })
    }
    return LastUpdateStatus === 'InProgress' || State === 'Pending' ? undefined : configuration
  })
}

function changedMeanwhile(functionName: string): ZaelError {
  const message = `The code of "${functionName}" was changed by another deployment at the same time.`
  return new ZaelError('conflict', 'lambda.raced', message, {
    hint: 'Run the same command again when the other deployment is done.',
    details: {functionName},
  })
}
