import type {Aws} from '../aws/clients.js'
import {lambdaPackage} from '../stack/lambda-package.js'
import type {StackResource} from '../stack/reader.js'
import {LOGICAL_ID} from '../stack/template.js'
import {readCode} from './lambda-code.js'
import type {ChangeSet} from './planned-change.js'

export interface RunningCode {
  readonly functionName: string
  readonly sha256Base64: string
  /** It is the code in this version of zael. */
  readonly isOurs: boolean
  /** Such as nodejs22.x; `null` when Lambda does not report it. */
  readonly runtime: string | null
}

/** Reads the function's code before the deployment; `null` when there is no function. */
export async function readRunningCode(aws: Aws, resources: readonly StackResource[]): Promise<RunningCode | null> {
  const functionName = resources.find(({logicalId}) => logicalId === LOGICAL_ID.function)?.physicalId
  if (!functionName) return null
  const [deployed, ours] = await Promise.all([readCode(aws, functionName), lambdaPackage()])
  // The function was deleted outside of CloudFormation.
  if (deployed === null) return null
  const {sha256Base64, runtime} = deployed
  return {functionName, sha256Base64, runtime, isOurs: sha256Base64 === ours.sha256Base64}
}

/** Whether the code has to be uploaded after the change set; `none`: there will be no function. */
export function planCode(
  running: RunningCode | null,
  changeSet: Pick<ChangeSet, 'changes'> | undefined,
): 'new' | 'current' | 'none' {
  const change = changeSet?.changes.find(({logicalId}) => logicalId === LOGICAL_ID.function)
  if (change?.action === 'remove') return 'none'
  if (change && ['add', 'restore', 'replace'].includes(change.action)) return 'new'
  if (!running) return 'none'
  // Lambda changes the architecture only together with code, so CloudFormation uploads the template's placeholder.
  const isReset = change?.properties.some(({name}) => name === 'Architectures')
  return isReset || !running.isOurs ? 'new' : 'current'
}

/** Warns after a failed update if the function does not have its code: a rollback can install the placeholder. */
export async function codeWarning(aws: Aws, running: RunningCode | null): Promise<string | undefined> {
  if (!running) return undefined
  const {functionName, sha256Base64} = running
  try {
    if ((await readCode(aws, functionName))?.sha256Base64 === sha256Base64) return undefined
    return `the function ${functionName} now has other code and may not count usage`
  } catch {
    // The failure of the deployment is more important than this one.
    return `whether the function ${functionName} still has its code could not be checked`
  }
}
