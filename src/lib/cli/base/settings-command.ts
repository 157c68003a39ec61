import type {Command} from '@oclif/core/command'
import {InvalidInput} from '../../core/errors.js'
import {type ListFlagValues, type Listing, listingCsv, listingLines} from '../output/listing.js'
import {BaseCommand} from './base-command.js'
import {stackFlags} from './context.js'
import {formatIn, type OutputFormat, outputFlags} from './output-format.js'
import {findSettings, flagOf, SETTING_KEYS, type Settings, type SettingsFiles} from './settings.js'

/** A command with settings: what is not typed comes from variables and files, and the result is told as `output` says. */
export abstract class SettingsCommand<T extends typeof Command> extends BaseCommand<T> {
  static override baseFlags = {...BaseCommand.baseFlags, ...stackFlags, ...outputFlags}

  protected settings: Settings | undefined
  protected settingsFiles: SettingsFiles = {project: undefined, user: undefined}
  #yaml: ((value: unknown) => string) | undefined

  protected override async init(): Promise<void> {
    await super.init()
    const flags = this.flags as Record<string, unknown>
    const {configDir} = this.config
    const typed = super.jsonEnabled() ? {...flags, output: 'json'} : flags
    const found = await findSettings({flags: typed, env: process.env, folder: process.cwd(), configDir})
    this.settings = found.settings
    this.settingsFiles = found.files
    for (const key of SETTING_KEYS) {
      const {value, source} = found.settings[key]
      // What the SDK finds by itself is left to it.
      flags[flagOf(key)] = source === 'aws' ? undefined : value
    }
    if (this.format === 'csv' && !this.canList) {
      throw new InvalidInput('output.csv', 'only lists can be told as comma-separated values', {
        hint: 'Use --output json or yaml.',
      })
    }
    if (this.format === 'yaml') this.#yaml = (await import('yaml')).stringify
  }

  /** Where one format is set for all commands, those that have no rows to tell as CSV are told as ever. */
  protected get format(): OutputFormat {
    const preferred = this.settings?.output.value as OutputFormat | undefined
    return formatIn(this.argv, preferred === 'csv' && !this.canList ? 'table' : preferred)
  }

  protected get canList(): boolean {
    return 'columns' in (this.ctor.flags ?? {})
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
export function lineWidth(): number | undefined {
  if (process.stdout.isTTY) return process.stdout.columns
  const columns = Number(process.env.COLUMNS)
  return columns > 0 ? columns : undefined
}
