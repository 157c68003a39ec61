import type {Command} from '@oclif/core/command'
import {openStack, type StackContext, type StackFlagValues} from './context.js'
import {withLocalHint} from './local-hint.js'
import {withNearestNames} from './missing.js'
import {SettingsCommand} from './settings-command.js'

/** A command on a stack: it is opened before the work and closed after it. */
export abstract class StackCommand<T extends typeof Command> extends SettingsCommand<T> {
  /** Does the work and tells people about it with `log` and `list`; returns what programs get, always with the same keys. */
  protected abstract work(stack: StackContext): Promise<object>

  async run(): Promise<object> {
    const flags = this.flags as unknown as StackFlagValues
    await using stack = await openStack(flags)
    try {
      return await this.work(stack)
    } catch (error) {
      throw await withLocalHint(await withNearestNames(error, stack), this.settings?.stack)
    }
  }
}
