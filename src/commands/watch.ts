import {lineWidth} from '../lib/cli/base/base-command.js'
import type {StackContext} from '../lib/cli/base/context.js'
import {StackCommand} from '../lib/cli/base/stack-command.js'
import {watchFlags, watchRequest} from '../lib/cli/flags/watch.js'
import {InvalidInput} from '../lib/core/errors.js'

export default class Watch extends StackCommand<typeof Watch> {
  static override summary = 'Watch levels, consumption and health live'

  static override description =
    'On a terminal a screen that keeps itself up to date; ? shows its keys. Elsewhere one line per poll, with --json one ' +
    'document per line. A poll costs at most about 50 read units: where there are more buckets than that pays for, they ' +
    'are read in turn, and it is said. --once reads them all, whatever that costs. Nothing is written. Ends with q, with ' +
    'Ctrl-C, or after --for.'

  static override flags = watchFlags

  static override examples = [
    {command: 'zael watch', description: 'All buckets, the emptiest first'},
    {command: 'zael watch --resource gpt-4 --sort rate', description: 'Who consumes most of one resource'},
    {command: 'zael watch --once --filter status:over', description: 'Who is refused at this moment, as a table'},
    {command: 'zael watch --for 60s --json', description: 'A minute of documents for a program'},
  ]

  #isStream = false

  protected async work(stack: StackContext): Promise<object> {
    const request = watchRequest(this.flags)
    const {once, top, ascii, namespace} = this.flags
    if (once) {
      const {takeSnapshot} = await import('../lib/cli/watch/open.js')
      const {snapshotLines} = await import('../lib/cli/watch/lines.js')
      const document = await takeSnapshot(stack, request, top)
      this.log(snapshotLines(document, lineWidth()).join('\n'))
      return document
    }
    if (this.format === 'yaml') {
      throw new InvalidInput('output.yaml', 'what goes on and on is told in lines or as JSON', {
        hint: 'Use --json, or --once with --output yaml.',
      })
    }
    this.#isStream = true
    const {runWatch} = await import('../lib/cli/watch/run.js')
    const {exitCode, summary} = await runWatch(stack, request, {
      ourVersion: this.config.version,
      settings: this.settings,
      namespace,
      top,
      ascii,
      isJson: this.jsonEnabled(),
    })
    this.log(summary)
    process.exitCode = exitCode
    return {}
  }

  /** The documents of a stream were printed as they came. */
  override logJson(json: unknown): void {
    if (!this.#isStream) super.logJson(json)
  }
}
