import {string} from '@oclif/core/args'
import {boolean, option} from '@oclif/core/flags'
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
import {confirm} from '../../lib/cli/output/confirm.js'

export default class EntityImport extends StackCommand<typeof EntityImport> {
  static override summary = 'Create and update entities from a CSV or JSON Lines file'

  static override description =
    'The first line of a CSV file names its columns: id, name, parent, cascade, metadata.KEY, limits ("rpm=60 tpm=10k/min", ' +
    'for all resources) and limits.RESOURCE; only id is needed. A line of JSON has the fields that an entity has in a ' +
    'manifest, and its id. Empty cells and entities that are not listed stay as they are, nothing is removed, and limits ' +
    'that are not named stay in force; boosts go on. All lines are checked before anything is written. Asks before it changes what is ' +
    'there, or what live buckets have besides. To continue after an interruption, run the command again.'

  static override args = {
    file: string({description: 'CSV or JSON Lines file; - reads standard input.', required: true, ignoreStdin: true}),
  }

  static override flags = {
    format: option({
      options: ['csv', 'jsonl'] as const,
      description: 'Format, if the name of the file does not say.',
    })(),
    'dry-run': boolean({description: 'Show what would change; write nothing.'}),
    yes: boolean({char: 'y', description: 'Do not ask before changing what is there.'}),
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
    this.print(importPlanLines(file, plan, preview))
    if (dryRun) return importJson(file, plan, preview, undefined)
    const question = importQuestion(plan, preview)
    if (question !== undefined) await confirm(question, {yes})
    const run = await importWithProgress(namespace, plan)
    this.print(importedLines(plan, run))
    process.exitCode = run.exitCode
    return importJson(file, plan, preview, run)
  }
}
