import {string} from '@oclif/core/args'
import {boolean, option} from '@oclif/core/flags'
import {typedFlags} from '../../lib/cli/base/settings.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {
  importedLines,
  importJson,
  importPlanLines,
  importQuestion,
  importWithProgress,
  planWithProgress,
  previewImport,
  readEntityFile,
} from '../../lib/cli/entity/import.js'
import type {EntityImportResult} from '../../lib/cli/entity/results.js'
import {confirm, yesFlag} from '../../lib/cli/output/confirm.js'

export default class EntityImport extends StackCommand<typeof EntityImport> {
  static override summary = 'Create and update entities from a CSV or JSON Lines file'

  static override description =
    'CSV columns: id (required), name, parent, cascade, metadata.KEY, limits ("rpm=60 tpm=10k/min", for all ' +
    'resources) and limits.RESOURCE. A JSON line has an id and the fields of a manifest entity. Empty cells and ' +
    'missing fields change nothing. Checks all lines first. Asks before it changes existing entities or limits, or ' +
    'replaces inherited limits with lower or fewer ones. If interrupted, run it again.'

  static override args = {
    file: string({description: 'CSV or JSON Lines file; - reads standard input.', required: true, ignoreStdin: true}),
  }

  static override flags = {
    format: option({
      options: ['csv', 'jsonl'] as const,
      description: 'File format. Default: by file extension.',
    })(),
    'dry-run': boolean({description: 'Show the changes; write nothing.'}),
    ...yesFlag,
  }

  static override examples = [
    {command: 'zael entity import customers.csv --dry-run', description: 'Check the file and show the changes'},
    {command: 'zael entity import customers.csv --yes', description: 'In a script'},
    {command: 'zael entity import - --format jsonl < users.jsonl', description: 'From another program'},
  ]

  protected async work(): Promise<EntityImportResult> {
    const {file} = this.args
    const {format, 'dry-run': dryRun = false, yes = false} = this.flags
    const listed = await readEntityFile(file, format)
    const namespace = await this.stack.namespace()
    const plan = await planWithProgress(namespace, listed)
    const preview = await previewImport(namespace, plan, this.stack.table.clock())
    this.print(importPlanLines(file, plan, preview, {dryRun, where: typedFlags(this.settings)}))
    if (dryRun) return importJson(file, plan, preview, undefined)
    const question = importQuestion(plan, preview)
    if (question !== undefined) await confirm(question, {yes})
    const run = await importWithProgress(namespace, plan)
    this.print(importedLines(plan, run))
    process.exitCode = run.exitCode
    return importJson(file, plan, preview, run)
  }
}
