import type {Account} from './account.js'
import {TABLE} from './resource-names.js'

// The account keeps table properties that the test engines do not support, and returns them as AWS does.

type Fields = Readonly<Record<string, unknown>>

/** Answers a call about recovery, deletion protection or tags; `undefined`: the engine answers it. */
export async function answerTableCall(account: Account, operation: string, input: Fields): Promise<object | undefined> {
  const name = String(input.TableName ?? String(input.ResourceArn).split('/').at(-1))
  if (operation === 'DescribeContinuousBackups') return backups((await account.find(TABLE, name)) ?? {})
  if (operation === 'UpdateContinuousBackups') {
    const {PointInTimeRecoverySpecification} = input
    await account.change(TABLE, name, {PointInTimeRecoverySpecification})
    return backups({PointInTimeRecoverySpecification})
  }
  if (operation === 'TagResource') {
    await account.change(TABLE, name, {Tags: input.Tags})
    return {}
  }
  const {DeletionProtectionEnabled} = input
  if (operation !== 'UpdateTable' || DeletionProtectionEnabled === undefined) return undefined
  await account.change(TABLE, name, {DeletionProtectionEnabled})
  return {TableDescription: {TableName: name, DeletionProtectionEnabled}}
}

/** The answer of an engine to DescribeTable, with the protection that it does not know. */
export async function withProtection(account: Account, text: string): Promise<string> {
  const answer = JSON.parse(text)
  const {DeletionProtectionEnabled = false} = (await account.find(TABLE, answer.Table?.TableName)) ?? {}
  return JSON.stringify({...answer, Table: {...answer.Table, DeletionProtectionEnabled}})
}

function backups({PointInTimeRecoverySpecification: given}: Fields): object {
  const {PointInTimeRecoveryEnabled: isOn, RecoveryPeriodInDays} = (given ?? {}) as Fields
  const status = isOn ? {PointInTimeRecoveryStatus: 'ENABLED', RecoveryPeriodInDays: RecoveryPeriodInDays ?? 35} : {}
  return {
    ContinuousBackupsDescription: {
      ContinuousBackupsStatus: 'ENABLED',
      PointInTimeRecoveryDescription: {PointInTimeRecoveryStatus: 'DISABLED', ...status},
    },
  }
}
