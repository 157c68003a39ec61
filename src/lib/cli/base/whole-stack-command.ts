import type {Command} from '@oclif/core/command'
import {unlessStopped} from '../../dynamo/abort.js'
import type {Aws} from '../../infra/aws/clients.js'
import {type Interruption, interruptible, nothingChanged} from '../output/interrupt.js'
import type {StackContext} from './context.js'
import {StackCommand, wholeStackFlags} from './stack-command.js'

/** A command that changes a stack as a whole. Ctrl-C and SIGTERM stop it at any request. */
export abstract class WholeStackCommand<T extends typeof Command> extends StackCommand<T> {
  static override baseFlags = wholeStackFlags

  protected interruption!: Interruption

  /** Not yet: settings are read before `run` listens. */
  protected override takeSignals(): void {}

  override run(): Promise<object> {
    return this.interruptibly(() => super.run())
  }

  /** Does work that has changed nothing when it is interrupted, unless it tells otherwise. */
  protected interruptibly<R>(work: () => Promise<R>): Promise<R> {
    return interruptible(
      (_, interruption) => {
        super.takeSignals()
        this.interruption = interruption
        return work()
      },
      () => nothingChanged(`${this.ctor.id}.interrupted`),
    )
  }

  /** Like `awsServices` of the context, but the interruption ends it. */
  protected async openAws({awsServices}: StackContext): Promise<Aws | undefined> {
    const {callAws} = await import('../../infra/aws/errors.js')
    return callAws('find out what answers at the endpoint', () => unlessStopped(awsServices(), this.interruption))
  }
}
