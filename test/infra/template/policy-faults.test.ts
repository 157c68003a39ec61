import {beforeAll, expect, it} from 'vitest'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import type {PolicyDocument} from './iam.js'
import {type Journeys, recordJourneys} from './journeys.js'
import {inRegistry, isWrite, lets, POLICIES, refused, TABLE_ARN} from './policy-check.js'

/** A policy of the reference: DynamoDB actions on the table and its indexes, for the given leading keys if there are any. */
function reference(actions: string, leadingKeys?: readonly string[]): PolicyDocument {
  const statement = {
    Effect: 'Allow',
    Action: actions.split(' ').map(name => `dynamodb:${name}`),
    Resource: [TABLE_ARN, `${TABLE_ARN}/index/*`],
  } as const
  if (!leadingKeys) return {Statement: [statement]}
  return {Statement: [{...statement, Condition: {'ForAllValues:StringLike': {'dynamodb:LeadingKeys': leadingKeys}}}]}
}

// biome-ignore lint/suspicious/noTemplateCurlyInString: a variable of IAM
const OWN = ['${aws:PrincipalTag/zael_namespace_id}/*']

describeOnBoth('policies', {}, table => {
  let journeys: Journeys
  beforeAll(async () => {
    journeys = await recordJourneys(table)
  })

  it('C-19 D-37 let acquire-only acquire: IAM authorises a transaction as the writes in it', () => {
    const acq = [reference('GetItem BatchGetItem Query TransactWriteItems')]
    expect(refused(acq, journeys.limiter).acquire).toEqual(['dynamodb:UpdateItem table'])
    expect(refused(POLICIES.ACQ, journeys.limiter)).toEqual({})
  })

  it('C-19 D-37 let a tenant create its first bucket, by UpdateItem instead of PutItem', () => {
    const actions = [...journeys.limiter.values()].flat().map(({action}) => action)
    expect(actions).not.toContain('dynamodb:PutItem')
    expect(refused(POLICIES.NS_ACQ, journeys.limiter, journeys.namespace)).toEqual({})
    // So a zael client works with the reference's policy too, without the reserved tokens of dead processes.
    const theirs = [
      reference('GetItem BatchGetItem Query UpdateItem', OWN),
      reference('GetItem BatchGetItem Query', ['_/*']),
    ]
    const denied = ['dynamodb:Query index/GSI4', 'dynamodb:DeleteItem table']
    expect(refused(theirs, journeys.limiter, journeys.namespace)).toEqual({
      'dead holders': denied,
      // Looks for runs whose time is over.
      delegate: denied.slice(0, 1),
    })
  })

  it('C-20 let a tenant delete an entity, and not rewrite the registry', () => {
    const all = 'GetItem BatchGetItem Query PutItem UpdateItem DeleteItem'
    const theirs = [reference(all, OWN), reference(all, ['_/*'])]
    const writes = [...journeys.registryChanges.values()].flat().filter(call => isWrite(call) && inRegistry(call))
    expect(writes.every(call => lets(theirs, call, journeys.namespace))).toBe(true)
    expect(writes.some(call => lets(POLICIES.NS_FULL, call, journeys.namespace))).toBe(false)
    expect(refused(theirs, journeys.changes, journeys.namespace)['entities.delete']).toContain(
      'dynamodb:BatchWriteItem table',
    )
    expect(refused(POLICIES.NS_FULL, journeys.changes, journeys.namespace)).toEqual({})
  })
})
