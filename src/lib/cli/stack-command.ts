import type {Command} from '@oclif/core/command'
import {InvalidInput} from '../errors.js'
import {BaseCommand} from './base-command.js'
import {openStack, type StackContext, type StackFlagValues, stackFlags} from './context.js'
import {type ListFlagValues, type Listing, listingCsv, listingLines} from './listing.js'
import {withNearestNames} from './missing.js'
import {formatIn, type OutputFormat, outputFlags} from './output-format.js'

/** A command on a stack: it is opened before the work and closed after it, and the result is told as `--output` says. */
export abstract class StackCommand<T extends typeof Command> extends BaseCommand<T> {
  static override baseFlags = {...BaseCommand.baseFlags, ...stackFlags, ...outputFlags}

  #yaml: ((value: unknown) => string) | undefined

  /** Does the work and tells people about it with `log` and `list`; returns what programs get, always with the same keys. */
  protected abstract work(stack: StackContext): Promise<object>

  async run(): Promise<object> {
    const flags = this.flags as unknown as StackFlagValues
    const format = this.format
    if (format === 'csv' && !('columns' in (this.ctor.flags ?? {}))) {
      throw new InvalidInput('output.csv', 'only lists can be told as comma-separated values', {
        hint: 'Use --output json or yaml.',
      })
    }
    if (format === 'yaml') this.#yaml = (await import('yaml')).stringify
    await using stack = await openStack(flags)
    try {
      return await this.work(stack)
    } catch (error) {
      throw await withNearestNames(error, stack, flags.namespace)
    }
  }

  protected get format(): OutputFormat {
    return formatIn(this.argv)
  }

  /** Without words for people: those would spoil what a program reads. */
  override jsonEnabled(): boolean {
    return super.jsonEnabled() || this.format === 'json' || this.format === 'yaml'
  }

  override logJson(json: unknown): void {
    if (this.#yaml && !super.jsonEnabled()) process.stdout.write(this.#yaml(json))
    else super.logJson(json)
  }

  /** Tells people; whoever asked for CSV gets nothing but rows. */
  override log(message = '', ...args: unknown[]): void {
    if (this.format !== 'csv') super.log(message, ...args)
  }

  /** Shows rows as `--output`, `--columns`, `--sort` and `--no-header` say. */
  protected list<Row>(listing: Listing<Row>): void {
    const flags = this.flags as unknown as ListFlagValues
    if (this.format === 'csv') process.stdout.write(`${listingCsv(listing, flags).join('\n')}\n`)
    // Also checks the names of columns where nothing is shown.
    else this.log(listingLines(listing, flags, lineWidth()).join('\n'))
  }

  /** Says on stderr that there is more, and how to get it. */
  protected tellMore(next: string | undefined): void {
    if (next !== undefined) this.logToStderr(`There are more: add --all, or --cursor ${next}`)
  }
}

/** In a pipe lines are as long as they get, unless COLUMNS says otherwise. */
function lineWidth(): number | undefined {
  if (process.stdout.isTTY) return process.stdout.columns
  const columns = Number(process.env.COLUMNS)
  return columns > 0 ? columns : undefined
}
