import {boolean, string} from '@oclif/core/flags'
import type {StackContext} from '../lib/cli/base/context.js'
import {typedFlags} from '../lib/cli/base/settings.js'
import {StackCommand, wholeStackFlags} from '../lib/cli/base/stack-command.js'
import {optionFlags, typedOptions} from '../lib/cli/flags/deploy.js'
import {exportWithConsent, readOptions} from '../lib/cli/flags/option-input.js'
import {nextLines} from '../lib/cli/output/facts.js'
import {deployLocally, localJson, localLines} from '../lib/cli/stack/deploy-local.js'
import {deployJson, finishedLines, NOTHING_DEPLOYED} from '../lib/cli/stack/deploy-presenter.js'
import {deployWithConsent} from '../lib/cli/stack/deploy-run.js'

export default class Deploy extends StackCommand<typeof Deploy> {
  static override baseFlags = wholeStackFlags

  static override summary = 'Create a stack on AWS, or bring it up to date'

  static override description =
    'Shows what CloudFormation would do and asks before it does it; then uploads the code of the aggregator if it is ' +
    'another, and registers the namespace "default". Options that are not given keep their deployed value. ' +
    'Running the command again is harmless, and finishes what was interrupted. The table is never replaced. ' +
    'On a local engine only the table is made, from the same template.'

  static override flags = {
    ...(optionFlags as object),
    'from-file': string({
      description: 'Read options, and tags, from a YAML or JSON file; flags win.',
      helpValue: 'FILE',
    }),
    tag: string({
      multiple: true,
      description: 'Tag of the stack and all it has; may be repeated.',
      helpValue: 'KEY=VALUE',
    }),
    'remove-tag': string({
      multiple: true,
      description: 'Take a tag away again; may be repeated.',
      helpValue: 'KEY',
    }),
    'dry-run': boolean({description: 'Show what would change; change nothing.'}),
    yes: boolean({char: 'y', description: 'Do not ask.'}),
    wait: boolean({allowNo: true, default: true, description: 'Wait until everything is done.'}),
    export: string({
      description: 'Write template, parameters and code to a folder, for other tools; AWS is not asked.',
      helpValue: 'DIR',
      exclusive: ['tag', 'remove-tag', 'dry-run'],
    }),
  }

  static override examples = [
    {command: 'zael deploy --stack prod', description: 'Shows the plan and asks'},
    {command: 'zael deploy --stack prod --lambda-memory 1024 --dry-run', description: 'What one option would change'},
    {command: 'zael deploy --stack prod --from-file prod.yaml --yes', description: 'In a pipeline'},
    {command: 'zael deploy --export out', description: 'For CDK or Terraform'},
  ]

  override async run(): Promise<object> {
    const {export: folder, 'from-file': file, yes = false} = this.flags
    if (folder === undefined) return super.run()
    const {options} = await readOptions(file, {options: typedOptions(this.flags), tags: [], removedTags: []})
    const stack = this.settings.stack.value ?? ''
    const files = await exportWithConsent(folder, {stack, options}, {yes})
    for (const {path, purpose} of files) this.log(`${path}  ${purpose}`)
    return {...NOTHING_DEPLOYED, stack, target: 'files', files}
  }

  protected async work({table, awsServices}: StackContext): Promise<object> {
    const {tag: tags = [], 'remove-tag': removedTags = []} = this.flags
    const {'from-file': file, 'dry-run': dryRun = false, yes = false, wait} = this.flags
    const {version} = this.config
    const stated = await readOptions(file, {options: typedOptions(this.flags), tags, removedTags})
    using aws = await awsServices()
    if (!aws) {
      const local = await deployLocally(table, stated.options, {version, dryRun})
      if (local.withoutEffect.length > 0)
        this.warn(`Without effect on a local engine: ${local.withoutEffect.join(', ')}`)
      this.log(localLines(local, dryRun).join('\n'))
      return localJson(local, dryRun)
    }
    const request = {stack: table.name, version, ...stated}
    const flags = typedFlags(this.settings)
    const {log, logToStderr} = this
    const manner = {yes, dryRun, wait, flags, log: log.bind(this), logToStderr: logToStderr.bind(this)}
    const {plan, finished} = await deployWithConsent(aws, table, request, manner)
    if (finished) this.log(`\n${finishedLines(plan, finished).join('\n')}`)
    else if (!dryRun)
      this.logToStderr(nextLines([[`zael deploy${flags}`, 'finish, when CloudFormation is done']]).join('\n'))
    return deployJson(plan, {dryRun, finished})
  }
}
