import {ZaelError} from '../../core/errors.js'
import {formatCount} from '../../core/text/text.js'
import type {OperationOutput} from '../../dynamo/transport.js'
import {describeTable, isEmptyTable, type Table} from '../../repository/table/table.js'
import {readVersion} from '../../repository/table/version.js'
import {indexes as indexNames, keyNames} from '../../schema/attributes.js'
import type {Aws} from '../aws/clients.js'
import {unlessRefused} from '../aws/errors.js'
import {findArchive} from '../stack/archive.js'
import {resourceIndexOption} from '../stack/options.js'
import {recoveryCommand, restreamCommand, throughputOf} from '../stack/reader.js'

type Parameters = Readonly<Record<string, string>>

export type Adoption = Readonly<NonNullable<Awaited<ReturnType<typeof planAdoption>>>>

/**
 * Imports only rate limiter tables, unchanged. `undefined`: no table. Throws if the import is not possible. Keeps the
 * bucket with audit events of an earlier stack of this name, `formerArchive`. `items` is up to six hours old.
 */
export async function planAdoption(aws: Aws, table: Table, given: Parameters) {
  const {name} = table
  const existing = await readExistingTable(table)
  if (!existing) return undefined
  await checkLimiterTable(table, existing)
  const misfits = misfitsOf(name, existing)
  if (misfits.length > 0) throw misfittingTable(name, misfits)
  const parameters = parametersOf(name, existing, given)
  const hasArchive = given.EnableAuditArchival !== 'false' && given.EnableAggregator !== 'false'
  const formerArchive = hasArchive ? await findArchive(aws, name, undefined, {isRequired: false}) : undefined
  return {table: name, items: existing.items, formerArchive: formerArchive ?? null, parameters}
}

async function checkLimiterTable(table: Table, {keys}: ExistingTable): Promise<void> {
  const {name: TableName} = table
  const isEmpty = await isEmptyTable(table)
  const own = keyNames()
  if (keys.join() !== own.join())
    throw foreignTable(TableName, `its key is ${keys.join(' and ')}, not ${own.join(' and ')}`)
  if (isEmpty) throw emptyTable(TableName)
  const {record, hasLegacyRecord} = await readVersion(table)
  if (!record && !hasLegacyRecord) throw foreignTable(TableName, 'it has no version record')
}

function misfitsOf(name: string, table: ExistingTable): Misfit[] {
  const {status, indexes, stream, expiry, recoveryDays, isProvisioned} = table
  const migrate = `zael migrate run --stack ${name}`
  const wanted = Object.values<string>(indexNames)
  const missing = wanted.filter(index => !indexes.some(each => each.name === index))
  const others = indexes.map(index => index.name).filter(index => !wanted.includes(index))
  const onDemand = `aws dynamodb update-table --table-name ${name} --billing-mode PAY_PER_REQUEST`
  const list: ReadonlyArray<readonly [isWrong: boolean, what: string, fix: string]> = [
    [status !== 'ACTIVE', `is ${status}`, `aws dynamodb wait table-exists --table-name ${name}`],
    [missing.length > 0, `lacks ${missing.join(', ')}`, migrate],
    [
      others.length > 0,
      `has indexes that are not in the template (${others.join(', ')})`,
      `aws dynamodb update-table --table-name ${name} --global-secondary-index-updates Delete={IndexName=${others[0]}}`,
    ],
    [stream === null, 'has no stream', migrate],
    [stream !== null && stream !== 'NEW_AND_OLD_IMAGES', `has a stream with ${stream}`, restreamCommand(name)],
    [expiry === false, 'has no expiry', migrate],
    [recoveryDays === 0, 'has no point-in-time recovery', recoveryCommand(name)],
    [isProvisioned, 'has provisioned capacity', onDemand],
  ]
  return list.flatMap(([isWrong, what, fix]) => (isWrong ? [{what, fix}] : []))
}

/** Describes the existing table, because an import cannot change it. Throws when another value is given. */
function parametersOf(name: string, table: ExistingTable, given: Parameters): Parameters {
  const {key, isProtected, recoveryDays, throughput} = table
  const {maxReads, maxWrites, warmReads, warmWrites} = throughput
  const projection = table.indexes.find(index => index.name === indexNames.resource)?.projection ?? ''
  const days = recoveryDays ?? DEFAULT_RECOVERY_DAYS
  const stated: ReadonlyArray<readonly [parameter: string, value: string, flag: string, has: string]> = [
    [
      'ResourceIndexProjection',
      projection,
      '--resource-index',
      `the resource index "${resourceIndexOption(projection)}"`,
    ],
    [
      'EnableDeletionProtection',
      String(isProtected),
      isProtected ? '--no-deletion-protection' : '--deletion-protection',
      isProtected ? 'deletion protection' : 'no deletion protection',
    ],
    [
      'PITRRecoveryPeriodDays',
      days === DEFAULT_RECOVERY_DAYS ? '' : String(days),
      '--pitr-days',
      `recovery of ${days} days`,
    ],
    ['OnDemandMaxReadUnits', unitsOf(maxReads), '--on-demand-max-reads', maximumText(maxReads, 'read')],
    ['OnDemandMaxWriteUnits', unitsOf(maxWrites), '--on-demand-max-writes', maximumText(maxWrites, 'write')],
  ]
  for (const [parameter, value, flag, has] of stated) {
    const asked = given[parameter]
    if (asked !== undefined && asked !== value) throw otherOption(name, flag, has)
  }
  checkWarm(name, '--warm-throughput-reads', given.WarmReadUnits, warmReads)
  checkWarm(name, '--warm-throughput-writes', given.WarmWriteUnits, warmWrites)
  checkKey(name, key, given.TableEncryptionKey)
  return Object.fromEntries(stated)
}

const unitsOf = (maximum: number | null): string => (maximum === null ? '' : String(maximum))

function maximumText(units: number | null, kind: 'read' | 'write'): string {
  return units === null ? `no maximum of ${kind} units` : `a maximum of ${formatCount(units)} ${kind} units a second`
}

/** Not a parameter, because it grows with traffic. A lower value is rejected later, as for every table. */
function checkWarm(name: string, flag: string, asked: string | undefined, current: number | null): void {
  if (!asked || (current !== null && Number(asked) <= current)) return
  const warm = current === null ? 'an unknown warm throughput' : `a warm throughput of ${formatCount(current)}`
  throw otherOption(name, flag, warm)
}

function checkKey(name: string, key: string | null, asked: string | undefined): void {
  if (key === null) {
    if (asked !== undefined && asked !== 'aws-owned') throw otherOption(name, '--encryption-key', 'a key that AWS owns')
    return
  }
  if (asked === undefined) throw unknownKey(name, key)
  if (asked !== key && asked !== 'aws-managed') throw otherOption(name, '--encryption-key', `the key ${key}`)
}

type ExistingTable = NonNullable<Awaited<ReturnType<typeof readExistingTable>>>

const DEFAULT_RECOVERY_DAYS = 35

async function readExistingTable(table: Table) {
  const {transport, name: TableName} = table
  const found = await describeTable(table)
  if (!found) return undefined
  const [expiry, recoveryDays] = await Promise.all([
    unlessRefused(() => transport.send('DescribeTimeToLive', {TableName})),
    unlessRefused(() => transport.send('DescribeContinuousBackups', {TableName})),
  ])
  const {BillingModeSummary: billing, ProvisionedThroughput: throughput} = found
  return {
    status: found.TableStatus ?? '',
    items: found.ItemCount ?? 0,
    keys: (found.KeySchema ?? []).map(({AttributeName = ''}) => AttributeName),
    indexes: (found.GlobalSecondaryIndexes ?? []).map(({IndexName: name = '', Projection: projection}) => {
      return {name, projection: projection?.ProjectionType ?? ''}
    }),
    stream: found.StreamSpecification?.StreamEnabled ? (found.StreamSpecification.StreamViewType ?? null) : null,
    /** `null`: could not be read, as on engines without it. */
    expiry: expiry && /^ENABL/.test(expiry.TimeToLiveDescription?.TimeToLiveStatus ?? ''),
    /** 0: recovery is off; `null`: could not be read. */
    recoveryDays: recoveryDays && daysOf(recoveryDays),
    isProtected: found.DeletionProtectionEnabled ?? false,
    /** ARN of the KMS key, customer-managed or AWS-managed; `null`: AWS owns the key. */
    key: found.SSEDescription?.KMSMasterKeyArn ?? null,
    isProvisioned:
      (billing?.BillingMode ?? 'PROVISIONED') === 'PROVISIONED' && (throughput?.ReadCapacityUnits ?? 0) > 0,
    throughput: throughputOf(found),
  }
}

function daysOf({ContinuousBackupsDescription: backups}: OperationOutput<'DescribeContinuousBackups'>): number {
  const {PointInTimeRecoveryStatus: status, RecoveryPeriodInDays: days} = backups?.PointInTimeRecoveryDescription ?? {}
  return status === 'ENABLED' ? (days ?? DEFAULT_RECOVERY_DAYS) : 0
}

export interface Misfit {
  /** Completes "the table …". */
  readonly what: string
  readonly fix: string
}

function emptyTable(name: string): ZaelError {
  const message = `An empty table "${name}" already exists and belongs to no stack.`
  return new ZaelError('conflict', 'deploy.table-empty', message, {
    hint:
      'Nothing was changed, because zael cannot identify an empty table. If nobody needs it, delete it, then run the same ' +
      `command again: aws dynamodb delete-table --table-name ${name}`,
    details: {stack: name},
  })
}

function foreignTable(name: string, why: string): ZaelError {
  const message = `A table "${name}" already exists that belongs to no stack and is not a rate limiter table: ${why}.`
  return new ZaelError('conflict', 'table.foreign', message, {
    hint: 'Nothing was changed. Choose another name with --stack, or another --region or --profile.',
    details: {stack: name},
  })
}

function misfittingTable(name: string, misfits: readonly Misfit[]): ZaelError {
  const fixes = [...new Set(misfits.map(({fix}) => fix))]
  const message = `The table "${name}" cannot be adopted as it is: it ${misfits.map(({what}) => what).join(', ')}.`
  return new ZaelError('conflict', 'deploy.adopt-misfit', message, {
    hint:
      'Nothing was changed, and every command works with the table. CloudFormation imports a table without checking it, ' +
      `so change it first, then run the same command again:\n${fixes.map(fix => `  ${fix}`).join('\n')}`,
    details: {stack: name, misfits: misfits.map(({what}) => what), fixes},
  })
}

function otherOption(name: string, flag: string, has: string): ZaelError {
  const message = `The table "${name}" has ${has}, and an import cannot change that.`
  return new ZaelError('conflict', 'deploy.adopt-differs', message, {
    hint: `Nothing was changed. Adopt the table without ${flag}, then run this command again to change it.`,
    details: {stack: name, flag},
  })
}

/** DynamoDB does not report whether a key is customer-managed. */
function unknownKey(name: string, key: string): ZaelError {
  return new ZaelError('conflict', 'deploy.adopt-key', `The table "${name}" is encrypted with the key ${key}.`, {
    hint:
      `Nothing was changed. Name the key: --encryption-key ${key} if it is your own, ` +
      '--encryption-key aws-managed if it is aws/dynamodb.',
    details: {stack: name, key},
  })
}

/** CloudFormation plans a new table although one exists: an emulator, or AWS changed its rules. */
export function notImported(name: string): ZaelError {
  const message = `A table "${name}" already exists that belongs to no stack, and CloudFormation cannot import it.`
  return new ZaelError('conflict', 'deploy.table-exists', message, {
    hint:
      'Nothing was changed, and every command works with the table. To delete the table: ' +
      `zael delete --stack ${name} --delete-table`,
    details: {stack: name},
  })
}

export function failedStackHasItems(name: string): ZaelError {
  const message = `An earlier deployment of "${name}" failed, and its table has items.`
  return new ZaelError('conflict', 'deploy.table-exists', message, {
    hint:
      'Nothing was changed. Delete the failed stack, which keeps the table, then adopt the table: ' +
      `zael delete --stack ${name}, then zael deploy --stack ${name}`,
    details: {stack: name},
  })
}
