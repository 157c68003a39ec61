import type {Command} from '@oclif/core/command'
import {StackCommand} from './stack-command.js'

const {namespace: _, ...wholeStackFlags} = StackCommand.baseFlags

/** A command on a stack as a whole; `--namespace` would mean nothing to it and is refused. */
export abstract class WholeStackCommand<T extends typeof Command> extends StackCommand<T> {
  // TypeScript lets no subclass have less than its parent; oclif knows only the flags that are really there.
  static override baseFlags = wholeStackFlags as typeof StackCommand.baseFlags
  // Said once more, because oclif's manifest looks no further up than to a class without statics of its own.
  static override enableJsonFlag = true
}
