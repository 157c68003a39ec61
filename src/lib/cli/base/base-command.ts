import {Command} from '@oclif/core/command'
import {ExitError} from '@oclif/core/errors'
import {boolean} from '@oclif/core/flags'
import type {InferredArgs, InferredFlags} from '@oclif/core/interfaces'
import {InvalidInput, type ZaelError} from '../../core/errors.js'
import {typedName} from '../../schema/hashed-name.js'
import {jsonPieces, jsonText} from '../output/json-text.js'
import {finishWithoutReader, fittedLines, paint, safeLine, writeLines} from '../output/lines.js'
import {type ListFlagValues, type Listing, listingCsv, listingLines} from '../output/listing.js'
import {type LongList, type PrintOptions, printLongList} from '../output/long-list.js'
import {formatIn, isRowFormat, type OutputFormat} from '../output/output-format.js'
import type {Streamed} from '../output/results.js'
import {leaveSignalsToCommand} from './early-signals.js'
import {asFailure, asUsageFailure, fail, failureJson, withResourceFlag} from './failure.js'
import {foreignOrigin} from './setting-rules.js'
import {applySettings, type FoundSettings} from './settings.js'

export type FlagsOf<T extends typeof Command> = InferredFlags<T['baseFlags'] & T['flags']>

export type ArgsOf<T extends typeof Command> = InferredArgs<T['args']>

export abstract class BaseCommand<T extends typeof Command> extends Command {
  static override baseFlags = {
    'no-color': boolean({description: 'Print without colours.', helpGroup: 'GLOBAL'}),
    debug: boolean({description: 'Print the stack trace of an error.', helpGroup: 'GLOBAL'}),
  }
  static override enableJsonFlag = true

  protected flags!: FlagsOf<T>
  protected args!: ArgsOf<T>
  private readonly warnings: string[] = []
  #preferredFormat: OutputFormat | undefined
  #yaml: ((value: unknown) => string) | undefined
  #isPrinted = false
  /** Set by a command that prints one document after another itself. */
  protected isStream = false

  /** Returns the `--json` result, never `undefined`: oclif prints nothing for that. */
  abstract override run(): Promise<object>

  protected override async init(): Promise<void> {
    await super.init()
    try {
      const {flags, args} = await this.parse(this.ctor)
      this.flags = withTypedNames(flags, this.ctor.id) as FlagsOf<T>
      this.args = withTypedNames(args, this.ctor.id) as ArgsOf<T>
    } catch (error) {
      const command = `${this.config.bin} ${this.ctor.id.replaceAll(':', ' ')}`
      const meant = this.ctor.flags?.resource ? withResourceFlag(error, this.argv) : undefined
      throw asUsageFailure(error, [command, ...(meant ?? ['--help'])].join(' '))
    }
    this.takeSignals()
    if (this.ctor.flags && ('yes' in this.ctor.flags || 'out' in this.ctor.flags)) finishWithoutReader()
  }

  protected takeSignals(): void {
    leaveSignalsToCommand()
  }

  /** Fills untyped stack flags. StackCommand calls it in `init`; commands with settings only, at the start of `run`. */
  protected async loadSettings(): Promise<FoundSettings> {
    const flags = this.flags as Record<string, unknown>
    const found = await applySettings(flags, {isJson: super.jsonEnabled(), configDir: this.config.configDir})
    this.#preferredFormat = found.settings.output.value as OutputFormat
    if (isRowFormat(this.format) && !this.isList) throw this.withoutRows(this.format)
    if (this.format === 'yaml') this.#yaml = (await import('../../files/yaml-text.js')).yamlText
    for (const path of found.ignored) this.warn(`Ignored ${path}: another user owns it`)
    const {value, from} = found.settings.endpointUrl
    const origin = foreignOrigin(value)
    if (origin !== undefined && this.format === 'table') this.logToStderr(`Endpoint: ${origin} (${from})`)
    return found
  }

  /** A preferred row format applies to lists only; other commands print text. */
  protected get format(): OutputFormat {
    if (!('output' in this.ctor.baseFlags)) return super.jsonEnabled() ? 'json' : 'table'
    const preferred = this.#preferredFormat
    return formatIn(this.argv, isRowFormat(preferred) && !this.isList ? 'table' : preferred)
  }

  protected get isList(): boolean {
    return 'columns' in (this.ctor.flags ?? {})
  }

  protected withoutRows(format: OutputFormat): InvalidInput {
    const how = format === 'csv' ? 'as CSV' : 'as JSON Lines'
    return new InvalidInput(`output.${format}`, `Only lists can be printed ${how}.`, {
      hint: 'Use --output json or yaml.',
    })
  }

  /** True for every machine-readable format except CSV: oclif then prints only the result. */
  override jsonEnabled(): boolean {
    return super.jsonEnabled() || ['json', 'jsonl', 'yaml'].includes(this.format)
  }

  override logJson(json: unknown): void {
    if (this.#isPrinted || this.isStream) return
    if (this.#yaml && !super.jsonEnabled()) process.stdout.write(this.#yaml(json))
    else if (this.format === 'jsonl') for (const row of rowsIn(json)) console.log(jsonText(row))
    else for (const piece of jsonPieces(json)) process.stdout.write(piece)
  }

  override log(line = ''): void {
    for (const fitted of fittedLines(line, process.stdout)) this.logExactly(fitted)
  }

  /** For text that a program reads, even if it is copied from a terminal. */
  protected logExactly(line: string): void {
    if (this.format !== 'csv') super.log(safeLine(line))
  }

  /** Quiet if a document says the same; rows of JSON Lines cannot. */
  override logToStderr(line = ''): void {
    for (const fitted of fittedLines(line, process.stderr)) {
      if (this.format === 'jsonl') console.error(safeLine(fitted))
      else super.logToStderr(safeLine(fitted))
    }
  }

  protected print(lines: readonly string[]): void {
    for (const line of lines) this.log(line)
  }

  protected show<Result>(shown: {
    readonly lines: string[]
    readonly result: Result
    readonly warnings?: readonly string[]
  }): Result {
    for (const warning of shown.warnings ?? []) this.warn(warning)
    this.print(shown.lines)
    return shown.result
  }

  /** `title`: a line above the table, not printed if a column name is unknown. */
  protected async list<Row>(listing: Listing<Row>, title?: string): Promise<void> {
    const flags = this.flags as unknown as ListFlagValues
    if (this.format === 'csv') return writeLines(listingCsv(listing, flags))
    // Called even when JSON is printed: it rejects unknown column names.
    const lines = await listingLines(listing, flags, this.lineWidth)
    if (title !== undefined) this.log(title)
    if (!this.jsonEnabled()) await writeLines(lines)
  }

  protected async listAll<Item, Row>(
    list: LongList<Item, Row>,
    {after = {next: null}, title}: {readonly after?: object; readonly title?: string} = {},
  ): Promise<Streamed> {
    const flags = this.flags as unknown as ListFlagValues
    await this.printAll(options => {
      const onBegin = () => {
        options.onBegin()
        if (title !== undefined) this.log(title)
      }
      return printLongList(list, {
        ...{...options, flags, width: this.lineWidth, onBegin},
        after: () => this.withWarnings(after),
      })
    })
    return {}
  }

  /** Lets `print` write the result itself. After `onBegin`, errors go to stderr instead of into the JSON. */
  protected async printAll(print: (options: PrintOptions) => Promise<void>): Promise<void> {
    await print({
      format: this.format,
      after: () => this.withWarnings({}),
      onBegin: () => {
        this.#isPrinted = true
      },
    })
  }

  /** `undefined`: unlimited, as in a pipe without COLUMNS. */
  protected get lineWidth(): number | undefined {
    if (process.stdout.isTTY) return process.stdout.columns
    const columns = Number(process.env.COLUMNS)
    return columns > 0 ? columns : undefined
  }

  protected suggestNextPage(next: string | undefined): void {
    if (next === undefined) return
    this.sayPartlySorted('add --all to sort everything')
    // A cursor has hundreds of characters. JSON has it as `next`; rows have no place for it.
    const value = this.format === 'csv' || this.format === 'jsonl' ? next : 'with the value of "next" from --json'
    this.logToStderr(`More rows exist. Add --all, or --cursor ${value}`)
  }

  protected sayPartlySorted(advice: string): void {
    const {sort} = this.flags as unknown as ListFlagValues
    if (sort !== undefined) this.logToStderr(`--sort sorted only the rows above; ${advice}.`)
  }

  /** oclif drops warnings in JSON mode. Here they always go to stderr, and into the JSON too. */
  override warn(input: Error | string): Error | string {
    const text = input instanceof Error ? input.message : input
    this.warnings.push(text)
    for (const line of fittedLines(`${paint('yellow', 'Warning:')} ${text}`, process.stderr))
      console.error(safeLine(line))
    return input
  }

  protected override toSuccessJson(result: unknown): unknown {
    return this.withWarnings(result as object)
  }

  /** oclif would print its whole configuration along with the error. */
  protected override toErrorJson(error: unknown): object {
    return this.withWarnings(failureJson(this.failureOf(error)))
  }

  protected failureOf(error: unknown): ZaelError {
    return asFailure(error)
  }

  protected override async catch(error: unknown): Promise<never> {
    if (error instanceof ExitError) throw error
    const failure = this.failureOf(error)
    const jsonBody = this.jsonEnabled() && !this.#isPrinted ? this.toErrorJson(failure) : undefined
    // Raw arguments: parsing may have failed.
    const debug = this.argv.includes('--debug') || this.config.scopedEnvVarTrue('DEBUG')
    return fail(failure, {jsonBody, isOneLine: this.format === 'jsonl', debug})
  }

  private withWarnings(body: object): object {
    return this.warnings.length === 0 ? body : {...body, warnings: this.warnings}
  }
}

const NAME_KINDS: Readonly<Record<string, 'entity' | 'resource'>> = {
  entity: 'entity',
  parent: 'entity',
  resource: 'resource',
}

/** People type names as commands show them, and paste stored ones. */
function withTypedNames(values: Readonly<Record<string, unknown>>, id: string): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => {
      const kind = name === 'id' && id.startsWith('entity:') ? 'entity' : NAME_KINDS[name]
      const stored = (typed: unknown) => (kind && typeof typed === 'string' ? typedName(kind, typed) : typed)
      return [name, Array.isArray(value) ? value.map(stored) : stored(value)]
    }),
  )
}

function rowsIn(result: unknown): unknown[] {
  const rows = Object.values(result as object).find(Array.isArray)
  return 'error' in (result as object) || rows === undefined ? [result] : rows
}
