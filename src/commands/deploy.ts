import {boolean} from '@oclif/core/flags'
import {typedFlags} from '../lib/cli/base/settings.js'
import {WholeStackCommand} from '../lib/cli/base/stack-command.js'
import {yesFlag} from '../lib/cli/output/confirm.js'
import {
  cloudFormationFlags,
  exportFlags,
  noPolicies,
  optionFlags,
  parseAccountId,
  parseBucketName,
  parseRoleArn,
  permissionFlags,
  protectionFlags,
  statedFlags,
  typedOptions,
} from '../lib/cli/stack/cloudformation-flags.js'
import {deployLocally, localJson, localLines} from '../lib/cli/stack/deploy-local.js'
import {
  deployJson,
  deployWarnings,
  finishedLines,
  NOTHING_DEPLOYED,
  unfinishedLines,
} from '../lib/cli/stack/deploy-presenter.js'
import {deployWithConsent} from '../lib/cli/stack/deploy-run.js'
import {exportPolicyWithConsent, exportWithConsent, readOptions} from '../lib/cli/stack/option-input.js'
import type {DeployResult} from '../lib/cli/stack/results.js'

export default class Deploy extends WholeStackCommand<typeof Deploy> {
  static override summary = 'Create or update a stack on AWS'

  static override description =
    'Shows the CloudFormation changes, asks for confirmation, and applies them. Options you omit keep their deployed ' +
    'values. The table is never replaced. An existing table with this name that belongs to no stack is adopted with its ' +
    'data. Run the command again to complete an interrupted deployment. On a local engine, only the table is created.'

  static override flags = {
    ...(optionFlags as object),
    ...statedFlags,
    repair: boolean({description: 'Also revert changes and deletions made outside CloudFormation.'}),
    'dry-run': boolean({description: 'Show the plan without changing anything.'}),
    ...yesFlag,
    wait: boolean({allowNo: true, default: true, description: 'Wait until the deployment is complete. Default: on.'}),
    ...exportFlags,
    ...protectionFlags,
    ...cloudFormationFlags,
    ...permissionFlags,
  }

  static override examples = [
    {command: 'zael deploy --stack prod', description: 'Show the plan and ask'},
    {command: 'zael deploy --stack prod --lambda-memory 1024 --dry-run', description: 'Preview a change to one option'},
    {command: 'zael deploy --stack prod --from-file prod.yaml --yes', description: 'In a pipeline'},
    {
      command: 'zael deploy --stack prod --export-policy policies --account-id 123456789012',
      description: 'Write IAM policies for a pipeline, without credentials',
    },
  ]

  override run(): Promise<object> {
    const {export: folder} = this.flags
    return folder === undefined ? super.run() : this.interruptibly(() => this.#export(folder))
  }

  async #export(folder: string): Promise<DeployResult> {
    const {'from-file': file, yes = false} = this.flags
    const {options} = await readOptions(file, {options: typedOptions(this.flags), tags: [], removedTags: []})
    const stack = this.settings.stack.value ?? ''
    const files = await exportWithConsent(folder, {stack, options}, {yes, signal: this.interruption.signal})
    return this.#exported(stack, files)
  }

  #exported(stack: string, files: DeployResult['files']): DeployResult {
    for (const {path, purpose} of files) this.log(`${path}  ${purpose}`)
    return {...NOTHING_DEPLOYED, stack, target: 'files', files}
  }

  protected async work(): Promise<DeployResult> {
    const {table} = this.stack
    const {interruption} = this
    const {tag: tags = [], 'remove-tag': removedTags = []} = this.flags
    const {'from-file': file, 'dry-run': dryRun = false, yes = false, wait} = this.flags
    const {version} = this.config
    const stated = await readOptions(file, {options: typedOptions(this.flags), tags, removedTags})
    const cloudFormationRole = parseRoleArn(this.flags['cloudformation-role'])
    const templateBucket = parseBucketName(this.flags['template-bucket'])
    const accountId = parseAccountId(this.flags['account-id'])
    const {'export-policy': policyFolder, 'termination-protection': terminationProtection} = this.flags
    const repair = this.flags.repair ?? false
    const changed = {...stated, repair, terminationProtection}
    const request = {stack: table.name, version, ...changed, cloudFormationRole, templateBucket}
    using aws = await this.openAws()
    if (!aws) {
      if (policyFolder !== undefined) throw noPolicies()
      const local = await deployLocally(table, request, {version, dryRun, interruption})
      if (local.withoutEffect.length > 0)
        this.warn(`These options have no effect on a local engine: ${local.withoutEffect.join(', ')}`)
      this.print(localLines(local, dryRun))
      return localJson(local, dryRun)
    }
    if (policyFolder !== undefined) {
      const {signal} = interruption
      const hasProfile = (this.settings.profile.value ?? process.env.AWS_PROFILE) !== undefined
      const account = {accountId, hasProfile}
      const {files, warning} = await exportPolicyWithConsent(aws, policyFolder, request, account, {yes, signal})
      if (warning !== undefined) this.warn(warning)
      return this.#exported(request.stack, files)
    }
    const flags = typedFlags(this.settings)
    const {print, logToStderr} = this
    const output = {print: print.bind(this), logToStderr: logToStderr.bind(this)}
    const mode = {yes, dryRun, wait, flags, interruption, ...output}
    const {plan, finished} = await deployWithConsent(aws, table, request, mode)
    for (const warning of deployWarnings(plan, finished, request)) this.warn(this.onSameStack(warning))
    if (finished) this.print(['', ...finishedLines(plan, finished)])
    else if (!dryRun) for (const line of unfinishedLines(plan, flags)) this.logToStderr(line)
    return deployJson(plan, {dryRun, finished})
  }
}
