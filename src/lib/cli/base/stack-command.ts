import type {Command} from '@oclif/core/command'
import {BaseCommand} from './base-command.js'
import {openStack, type StackContext, type StackFlagValues, stackFlags} from './context.js'
import {withLocalHint, withNearestNames, withWhere} from './hints.js'
import {outputFlags} from './output-format.js'
import type {Settings} from './settings.js'

/** A command on a stack: settings are resolved, the stack is opened before the work and closed after it. */
export abstract class StackCommand<T extends typeof Command> extends BaseCommand<T> {
  static override baseFlags = {...BaseCommand.baseFlags, ...stackFlags, ...outputFlags}

  protected settings!: Settings

  /** Does the work and prints it for people with `log` and `list`; returns the JSON result, always with the same keys. */
  protected abstract work(stack: StackContext): Promise<object>

  protected override async init(): Promise<void> {
    await super.init()
    this.settings = (await this.loadSettings()).settings
  }

  async run(): Promise<object> {
    await using stack = await openStack(this.flags as unknown as StackFlagValues)
    try {
      return await this.work(stack)
    } catch (error) {
      const found = withWhere(await withNearestNames(error, stack), this.settings, process.env)
      throw await withLocalHint(found, this.settings.stack)
    }
  }
}

const {namespace: _, ...withoutNamespace} = StackCommand.baseFlags

/** The `baseFlags` of commands on a stack as a whole: they refuse `--namespace`. */
// Cast because TypeScript allows no subclass fewer statics than its parent has; oclif sees the flags that really exist.
export const wholeStackFlags = withoutNamespace as typeof StackCommand.baseFlags
