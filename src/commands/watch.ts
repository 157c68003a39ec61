import {lineWidth} from '../lib/cli/base/base-command.js'
import type {StackContext} from '../lib/cli/base/context.js'
import {StackCommand} from '../lib/cli/base/stack-command.js'
import {watchFlags, watchRequest} from '../lib/cli/flags/watch.js'
import {writeLines} from '../lib/cli/output/write-lines.js'
import type {Streamed} from '../lib/cli/results/shared.js'
import type {WatchResult} from '../lib/cli/results/watch.js'
import {InvalidInput} from '../lib/core/errors.js'

export default class Watch extends StackCommand<typeof Watch> {
  static override summary = 'Watch bucket levels, consumption and health live'

  static override description =
    'On a terminal, shows a live screen; ? lists its keys. Otherwise prints one line per poll, or with --json one JSON ' +
    'document per line. A poll costs at most about 50 read units: when there are more buckets, it reads some of them in ' +
    'turn and says so. --once reads all buckets regardless of cost, and twice when it sorts by a rate. Nothing is written, ' +
    'except by the keys that --actions allows. Exits with q, Ctrl-C, or after --for.'

  static override flags = watchFlags

  static override examples = [
    {command: 'zael watch --sort refused', description: 'Those first whose requests are refused most'},
    {command: 'zael watch --once --filter status:over', description: 'Buckets that refuse requests now, as a table'},
    {command: 'zael watch --for 60s --json', description: 'One minute of JSON documents'},
    {command: 'zael watch --actions', description: 'With keys to reset, boost or block the selected row'},
  ]

  #isStream = false

  protected async work(stack: StackContext): Promise<WatchResult | Streamed> {
    const request = watchRequest(this.flags)
    const {once, top, ascii, namespace, actions} = this.flags
    if (once && actions) throw (await import('../lib/cli/watch/run.js')).actionsUnavailable()
    if (once) {
      const {takeSnapshot} = await import('../lib/cli/watch/open.js')
      const {snapshotLines} = await import('../lib/cli/watch/lines.js')
      const {snapshotCsv} = await import('../lib/cli/watch/csv.js')
      const document = await takeSnapshot(stack, request, top)
      if (this.format === 'csv') await writeLines(snapshotCsv(document))
      else this.print(await snapshotLines(document, lineWidth()))
      return document
    }
    if (this.format === 'yaml') {
      throw new InvalidInput('output.yaml', 'a continuous watch prints lines or JSON, not YAML', {
        hint: 'Use --json, or --once with --output yaml.',
      })
    }
    this.#isStream = true
    const {runWatch} = await import('../lib/cli/watch/run.js')
    const {
      exitCode,
      summary,
      performed = [],
    } = await runWatch(stack, request, {
      ourVersion: this.config.version,
      settings: this.settings,
      namespace,
      top,
      ascii,
      isJson: this.jsonEnabled(),
      canAct: actions,
    })
    this.print([summary, ...performed])
    process.exitCode = exitCode
    return {}
  }

  protected override get isList(): boolean {
    return this.flags.once
  }

  protected override withoutCsv(): InvalidInput {
    return new InvalidInput('output.csv', 'a continuous watch prints lines or JSON, not CSV', {
      hint: 'Use --json, or --once with --output csv.',
    })
  }

  /** The documents of a stream were printed as they came. */
  override logJson(json: unknown): void {
    if (!this.#isStream) super.logJson(json)
  }
}
