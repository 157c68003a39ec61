import {StackCommand} from '../lib/cli/base/stack-command.js'
import type {OutputFormat} from '../lib/cli/output/output-format.js'
import type {Streamed} from '../lib/cli/output/results.js'
import {InvalidInput} from '../lib/core/errors.js'
import {type WatchRequest, watchFlags, watchRequest} from '../lib/live/flags.js'
import type {WatchResult} from '../lib/live/results.js'

export default class Watch extends StackCommand<typeof Watch> {
  static override summary = 'Watch bucket levels, consumption and health live'

  static override description =
    'On a terminal, shows a live screen; press ? for its keys. Without a terminal, prints one line per poll. With ' +
    '--json, prints one JSON document per poll. A poll costs at most about 50 read units. If that does not cover ' +
    'all buckets, each poll reads another part of them. Writes nothing, unless you add --actions. Stop with q, ' +
    'Ctrl-C or --for.'

  static override flags = watchFlags

  static override examples = [
    {command: 'zael watch --sort refused', description: 'Most refused first'},
    {command: 'zael watch --once --all --filter status:over', description: 'List all buckets that refuse requests now'},
    {command: 'zael watch --prometheus --listen 9464', description: 'Serve Prometheus metrics on 127.0.0.1'},
    {command: 'zael watch --actions', description: 'Enable keys that reset, boost or block the selected row'},
  ]

  protected async work(): Promise<WatchResult | Streamed> {
    const request = watchRequest(this.flags)
    const {once, top, ascii, namespace, actions} = this.flags
    if (this.flags.prometheus) return this.#measure(request)
    if (once && actions) throw (await import('../lib/live/run.js')).actionsUnavailable()
    if (once) {
      const {takeSnapshot} = await import('../lib/live/run.js')
      const {printSnapshot, sampleText} = await import('../lib/live/lines.js')
      const watched = await takeSnapshot(this.stack, request, top)
      const part = sampleText(watched.head)
      if (part !== undefined && this.format !== 'table') this.warn(part)
      await this.printAll(options => printSnapshot(watched, {...options, width: this.lineWidth}))
      return {}
    }
    if (this.format === 'yaml') {
      throw new InvalidInput('output.yaml', 'A continuous watch prints lines or JSON, not YAML.', {
        hint: 'Use --json, or --once with --output yaml.',
      })
    }
    this.isStream = true
    const {runWatch} = await import('../lib/live/run.js')
    const {
      exitCode,
      summary,
      performed = [],
    } = await runWatch(this.stack, request, {
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

  async #measure(request: WatchRequest): Promise<Streamed> {
    if (this.format !== 'table') throw onlyMetrics(this.format)
    const {namespace, listen} = this.flags
    const {printMetrics, runMetricsServer} = await import('../lib/live/metrics/metrics-server.js')
    const place = {namespace, ourVersion: this.config.version}
    if (listen === undefined) await printMetrics(this.stack, request, place)
    else {
      const [log, warn] = [(line: string) => this.log(line), (line: string) => this.logToStderr(line)]
      process.exitCode = await runMetricsServer(this.stack, request, {...place, listen, log, warn})
    }
    return {}
  }

  protected override get isList(): boolean {
    return this.flags.once
  }

  protected override withoutRows(format: OutputFormat): InvalidInput {
    if (this.flags.prometheus) return onlyMetrics(format)
    const what = format === 'csv' ? 'CSV' : 'JSON Lines'
    return new InvalidInput(`output.${format}`, `A continuous watch prints lines or JSON, not ${what}.`, {
      hint: `Use --json, which prints one document per poll, or --once with --output ${format}.`,
    })
  }
}

function onlyMetrics(format: OutputFormat): InvalidInput {
  return new InvalidInput(`output.${format}`, '--prometheus prints only the Prometheus text format.', {
    hint: 'Omit --json and --output. For JSON, use --once --json.',
  })
}
