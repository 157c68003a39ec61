import type {Account} from './account.js'
import {execute, type Operated, type Step} from './operations.js'
import type {ResourcePlan, StackResourceState} from './planned-changes.js'
import type {ResolvedTemplate} from './stack-template.js'

export const ACCOUNT_ID = '123456789012'
export const REGION = 'eu-west-1'

export interface EventState {
  readonly id: string
  readonly step: Step
  readonly at: Date
}

/** A change set; `reads` counts how often it was described: it is planned after the second time. */
export interface ChangeSetState {
  readonly id: string
  readonly name: string
  readonly plans: readonly ResourcePlan[]
  readonly resolved: ResolvedTemplate
  readonly templateBody: string
  readonly tags: Readonly<Record<string, string>>
  readonly role: string | undefined
  /** Why it fails; `undefined`: it does not. */
  readonly refusal: string | undefined
  /** Returned by DescribeEvents. */
  readonly validationErrors: readonly object[]
  readonly revertsDrift: boolean
  executionStatus: 'AVAILABLE' | 'EXECUTE_IN_PROGRESS' | 'OBSOLETE'
  reads: number
}

/** A stack and everything about it. */
export class StackState implements Operated {
  readonly id: string
  readonly resources = new Map<string, StackResourceState>()
  readonly changeSets = new Map<string, ChangeSetState>()
  readonly events: EventState[] = []
  status = 'REVIEW_IN_PROGRESS'
  reason: string | undefined
  tags: Readonly<Record<string, string>> = {}
  role: string | undefined
  template = ''
  resolved: ResolvedTemplate | undefined
  deletedAt: Date | undefined
  #operation: AsyncGenerator<Step, void> | undefined

  constructor(
    readonly name: string,
    readonly number: number,
    readonly account: Account,
    readonly failures: ReadonlyMap<string, string>,
  ) {
    this.id = `arn:aws:cloudformation:${REGION}:${ACCOUNT_ID}:stack/${name}/0000-${number}`
  }

  get isDeleted(): boolean {
    return this.status === 'DELETE_COMPLETE'
  }

  /** An operation is under way. A stack without resources is in review, which no operation waits for. */
  get isBusy(): boolean {
    return this.status.endsWith('_IN_PROGRESS') && this.status !== 'REVIEW_IN_PROGRESS'
  }

  /** Begins to execute a change set: all others are obsolete from now on, and gone when it is done. */
  async begin(changeSet: ChangeSetState, removesRetained: boolean): Promise<void> {
    for (const each of this.changeSets.values()) each.executionStatus = 'OBSOLETE'
    changeSet.executionStatus = 'EXECUTE_IN_PROGRESS'
    const isUpdate = this.status !== 'REVIEW_IN_PROGRESS'
    await this.operate(execute(this, changeSet.plans, {removesRetained, isUpdate}), succeeded => {
      this.changeSets.clear()
      if (!succeeded && isUpdate) return
      this.template = changeSet.templateBody
      this.resolved = changeSet.resolved
      this.tags = changeSet.tags
      this.role = changeSet.role ?? this.role
    })
  }

  /** Starts an operation with its first step; the others follow with `advance`. */
  async operate(steps: AsyncGenerator<Step, void>, onEnd: (succeeded: boolean) => void = () => {}): Promise<void> {
    const run = async function* (): AsyncGenerator<Step, void> {
      let last = ''
      for await (const step of steps) {
        if (step.logicalId === null) last = step.status
        if (step.logicalId === null && !step.status.endsWith('_IN_PROGRESS')) onEnd(!/ROLLBACK|FAILED/.test(last))
        yield step
      }
    }
    this.#operation = run()
    await this.advance(1)
  }

  /** Time passes: at most this many steps of the operation under way happen. */
  async advance(steps: number): Promise<void> {
    for (let left = steps; left > 0 && this.#operation; left--) {
      const {done, value} = await this.#operation.next()
      if (done || !value) {
        this.#operation = undefined
        return
      }
      if (value.logicalId === null) {
        this.status = value.status
        this.reason = value.reason
        if (this.isDeleted) {
          this.deletedAt = new Date()
          this.changeSets.clear()
        }
      }
      this.events.push({id: `${this.number}-${this.events.length}`, step: value, at: new Date()})
    }
  }

  /** Outputs with the names of the resources that they refer to. */
  outputs(): Array<{OutputKey: string; OutputValue: string}> {
    const nameOf = (logicalId: string) => this.resources.get(logicalId)?.physicalId ?? logicalId
    return Object.entries(this.resolved?.outputs ?? {}).map(([OutputKey, value]) => ({
      OutputKey,
      OutputValue: value
        .replace(/^ref:(\w+)$/, (_, id) => nameOf(id))
        .replace(/^arn:(\w+)$/, (_, id) => arnOf(nameOf(id))),
    }))
  }
}

function arnOf(name: string): string {
  return name.startsWith('arn:') ? name : `arn:aws:some:${REGION}:${ACCOUNT_ID}:${name}`
}
