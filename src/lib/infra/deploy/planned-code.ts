import type {Aws} from '../aws/clients.js'
import {readCodeHash} from '../lambda/code.js'
import {lambdaPackage} from '../lambda/package.js'
import type {StackResource} from '../stacks/reader.js'
import {LOGICAL_ID} from '../stacks/template.js'
import type {ChangeSet} from './change-set.js'

/** The code that the function of a stack runs. */
export interface RunningCode {
  readonly functionName: string
  readonly sha256Base64: string
  /** It is the code of this zael. */
  readonly isOurs: boolean
}

/** What the function runs before anything is changed; `null` when there is no function. */
export async function readRunningCode(aws: Aws, resources: readonly StackResource[]): Promise<RunningCode | null> {
  const functionName = resources.find(({logicalId}) => logicalId === LOGICAL_ID.function)?.physicalId
  if (!functionName) return null
  const [sha256Base64, ours] = await Promise.all([readCodeHash(aws, functionName), lambdaPackage()])
  // Deleted behind the back of CloudFormation.
  if (sha256Base64 === null) return null
  return {functionName, sha256Base64, isOurs: sha256Base64 === ours.sha256Base64}
}

/** Whether the function needs our code after the change set; `none`: there is no function then. */
export function planCode(
  running: RunningCode | null,
  changeSet: Pick<ChangeSet, 'changes'> | undefined,
): 'new' | 'current' | 'none' {
  const change = changeSet?.changes.find(({logicalId}) => logicalId === LOGICAL_ID.function)
  if (change?.action === 'remove') return 'none'
  if (change?.action === 'add' || change?.action === 'replace') return 'new'
  if (!running) return 'none'
  // Lambda takes another processor only together with code, so CloudFormation sends the placeholder of the template.
  const isReset = change?.properties.some(({name}) => name === 'Architectures')
  return isReset || !running.isOurs ? 'new' : 'current'
}

/** What to say of the code after an update that failed: going back may have brought the placeholder too. */
export async function codeWarning(aws: Aws, running: RunningCode | null): Promise<string | undefined> {
  if (!running) return undefined
  const {functionName, sha256Base64} = running
  try {
    if ((await readCodeHash(aws, functionName)) === sha256Base64) return undefined
    return `the function ${functionName} has other code now and may count nothing`
  } catch {
    // The failure of the deployment is what is to be told.
    return `whether the function ${functionName} still has its code could not be read`
  }
}
