import type {Command} from '@oclif/core/command'
import {ZaelError} from '../../core/errors.js'
import {outputFlags} from '../output/output-format.js'
import {withKnownProfiles} from './aws-profiles.js'
import {BaseCommand} from './base-command.js'
import {openStack, type StackContext, type StackFlagValues, stackFlags} from './context.js'
import {flagsOfCommands, withTypedFlags} from './hint-flags.js'
import {withLocalHint, withNearestNames, withWhere} from './hints.js'
import type {Settings} from './settings.js'

export abstract class StackCommand<T extends typeof Command> extends BaseCommand<T> {
  static override baseFlags = {...BaseCommand.baseFlags, ...stackFlags, ...outputFlags}

  protected settings!: Settings

  /** Does the work and prints it for people with `log` and `list`; returns the JSON result, always with the same keys. */
  protected abstract work(stack: StackContext): Promise<object>

  protected override async init(): Promise<void> {
    await super.init()
    this.settings = (await this.loadSettings()).settings
  }

  /** Commands that it proposes run against the same stack. */
  protected override failureOf(error: unknown): ZaelError {
    const failure = super.failureOf(error)
    const {kind, code, message, hint, details, cause} = failure
    // Flags that could not be parsed are unknown.
    if (hint === undefined || this.settings === undefined) return failure
    return new ZaelError(kind, code, message, {hint: this.onSameStack(hint), details, cause})
  }

  protected onSameStack(proposal: string): string {
    return withTypedFlags(proposal, this.settings, flagsOfCommands(this.config))
  }

  async run(): Promise<object> {
    await using stack = await openStack(this.flags as unknown as StackFlagValues)
    try {
      return await this.work(stack)
    } catch (error) {
      const {profile} = this.settings
      const named = await withKnownProfiles(await withNearestNames(error, stack), profile, process.env)
      const found = withWhere(named, this.settings, process.env)
      throw await withLocalHint(found, this.settings.stack)
    }
  }
}

const {namespace: _, ...withoutNamespace} = StackCommand.baseFlags

/** The `baseFlags` of commands on a stack as a whole: they refuse `--namespace`. */
// Cast because TypeScript allows no subclass fewer statics than its parent has; oclif sees the flags that really exist.
export const wholeStackFlags = withoutNamespace as typeof StackCommand.baseFlags
