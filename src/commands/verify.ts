import {boolean, integer, string} from '@oclif/core/flags'
import {StackCommand} from '../lib/cli/base/stack-command.js'
import {parseInstant} from '../lib/cli/flags/time-range.js'
import {confirm} from '../lib/cli/output/confirm.js'
import {EXIT} from '../lib/cli/output/exit.js'
import type {VerifyResult} from '../lib/cli/verify/results.js'

export default class Verify extends StackCommand<typeof Verify> {
  static override summary = 'Check the records of a table for inconsistencies'

  static override description =
    'Compares consumed counters with usage; daily with hourly usage; buckets with their limits, parents and ' +
    'shards; registries and indexes with records. Reads all namespaces, or only one entity with --entity. Rereads ' +
    'suspicious records until they are stable, so traffic causes no false findings. Writes nothing without --fix. ' +
    'Exits with 6 if an inconsistency remains.'

  static override flags = {
    entity: string({char: 'e', description: 'Check only this entity.', helpValue: 'ID'}),
    since: string({
      description: 'Skip usage before this time, and buckets not refilled since: 90m, 24h, 7d or a UTC time.',
      helpValue: 'WHEN',
    }),
    fix: boolean({
      description: 'Repair findings with an unambiguous repair, after confirmation. Skips records that changed since.',
    }),
    yes: boolean({char: 'y', description: 'Skip confirmation.', dependsOn: ['fix']}),
    all: boolean({description: 'List all findings instead of the first ones of each kind.'}),
    'rate-limit': integer({description: 'Maximum read units per second.', helpValue: 'RCU', min: 1}),
    cursor: string({description: 'Continue where an earlier call ended.', helpValue: 'NEXT', exclusive: ['entity']}),
  }

  static override examples = [
    {command: 'zael verify -s prod --rate-limit 200', description: 'Check a table under traffic'},
    {command: 'zael verify --entity user-1', description: 'One entity: its record, limits, buckets and usage'},
    {command: 'zael verify -s prod --fix', description: 'Repair the findings'},
    {command: 'zael verify -s prod --json', description: 'In a pipeline'},
  ]

  protected async work(): Promise<VerifyResult> {
    const {entity, since, fix, yes, all, cursor, 'rate-limit': rateLimit} = this.flags
    const {stack, table, principal} = this.stack
    const {compareRecords, repairRecords, verifyJson, verifyLines} = await import('../lib/cli/verify/presenter.js')
    // A mistyped namespace is an error, but a table whose registry lost "default" is still checked.
    const {DEFAULT_NAMESPACE} = await import('../lib/repository/namespaces/namespaces.js')
    const isNamespaceNeeded = entity !== undefined || this.flags.namespace !== DEFAULT_NAMESPACE
    const namespace = isNamespaceNeeded ? await this.stack.namespace() : undefined
    const options = {
      entity: entity === undefined || !namespace ? undefined : {namespace: namespace.id, entity},
      sinceMs: since === undefined ? undefined : parseInstant('--since', since, table.clock()),
      rateLimit,
      cursor,
    }
    const report = await compareRecords(table, stack, options, this.flags)
    const repairable = report.findings.filter(({repair}) => repair)
    let outcomes = new Map()
    if (fix && repairable.length > 0) {
      this.print(verifyLines({stack, entity, report, outcomes}, {all}))
      await confirm(`This repairs ${repairable.length} of ${report.findings.length} findings`, {yes})
      outcomes = await repairRecords(table, report.findings, principal)
    }
    this.print(verifyLines({stack, entity, report, outcomes}, {all}))
    const result = verifyJson({stack, entity, report, outcomes})
    if (!result.clean) process.exitCode = EXIT.negative
    return result
  }
}
