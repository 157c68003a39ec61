import {Command} from '@oclif/core/command'
import {ExitError} from '@oclif/core/errors'
import {boolean} from '@oclif/core/flags'
import type {InferredArgs, InferredFlags} from '@oclif/core/interfaces'
import {colorize} from '@oclif/core/ux'
import {asFailure, asUsageFailure, fail, failureJson} from './failure.js'

/** The parsed flags of a command class, those of every command included. */
export type FlagsOf<T extends typeof Command> = InferredFlags<(typeof BaseCommand)['baseFlags'] & T['flags']>

/** The parsed arguments of a command class. */
export type ArgsOf<T extends typeof Command> = InferredArgs<T['args']>

/** What all commands share: parsed input, `--json`, warnings that reach both readers, and errors with an exit code. */
export abstract class BaseCommand<T extends typeof Command> extends Command {
  static override baseFlags = {
    'no-color': boolean({description: 'Print without colours.', helpGroup: 'GLOBAL'}),
    debug: boolean({description: 'Show where an error happened.', helpGroup: 'GLOBAL'}),
  }
  static override enableJsonFlag = true

  protected flags!: FlagsOf<T>
  protected args!: ArgsOf<T>
  private readonly warnings: string[] = []

  /** Returns what `--json` prints; an object, since oclif prints nothing for `undefined`. */
  abstract override run(): Promise<object>

  protected override async init(): Promise<void> {
    await super.init()
    try {
      const {flags, args} = await this.parse(this.ctor)
      this.flags = flags as FlagsOf<T>
      this.args = args as ArgsOf<T>
    } catch (error) {
      throw asUsageFailure(error, `${this.config.bin} ${this.ctor.id.replaceAll(':', ' ')} --help`)
    }
  }

  /** oclif drops warnings in JSON mode; here they go to stderr always, and into the JSON as well. */
  override warn(input: Error | string): Error | string {
    const text = input instanceof Error ? input.message : input
    this.warnings.push(text)
    console.error(`${colorize('yellow', 'Warning:')} ${text}`)
    return input
  }

  protected override toSuccessJson(result: unknown): unknown {
    return this.withWarnings(result as object)
  }

  /** oclif would print its whole configuration along with the error. */
  protected override toErrorJson(error: unknown): object {
    return this.withWarnings(failureJson(asFailure(error)))
  }

  protected override async catch(error: unknown): Promise<never> {
    if (error instanceof ExitError) throw error
    const failure = asFailure(error)
    const jsonBody = this.jsonEnabled() ? this.toErrorJson(failure) : undefined
    // From the words themselves: the error may be that they could not be parsed.
    const debug = this.argv.includes('--debug') || this.config.scopedEnvVarTrue('DEBUG')
    return fail(failure, {jsonBody, debug})
  }

  private withWarnings(body: object): object {
    return this.warnings.length === 0 ? body : {...body, warnings: this.warnings}
  }
}
