import {expect, it} from 'vitest'
import {bucketListing, bucketTitle, shardListing} from '../../../src/lib/cli/bucket/presenter.js'
import type {BucketLevels, ShardLevels} from '../../../src/lib/repository/buckets/view.js'
import {listed, listedCsv} from '../../helpers/lines.js'

const NOW = Date.UTC(2026, 10, 15)
const PLAIN = {columns: undefined, sort: undefined, 'no-header': false}

const level = (value: number) => ({
  name: 'rpm',
  level: value,
  capacity: 50,
  debt: Math.max(0, -value),
  refillPerSecond: 0.5,
})
const shard = (number: number, value: number, rest: Partial<ShardLevels> = {}): ShardLevels => ({
  shard: number,
  isGhost: false,
  limits: [level(value)],
  incomplete: [],
  writePressure: 0.25,
  writes: 1234,
  refilledAt: '',
  refillAgeMs: 90_000,
  expiresAt: new Date(NOW + 120_000).toISOString(),
  ...rest,
})
const bucket: BucketLevels = {
  entity: 'user-1',
  resource: 'gpt-4',
  parent: 'team-1',
  cascade: true,
  shardCount: 2,
  isDisabled: false,
  bypassedUntil: null,
  limits: [{...level(20), capacity: 100}],
  shards: [shard(0, 30), shard(1, -10, {expiresAt: null})],
}

it('shows shards and parent in the title', () => {
  expect(bucketTitle('user-1', [bucket])).toBe('Bucket of user-1 · gpt-4, 2 shards, also charged to team-1')
  expect(bucketTitle('user-1', [{...bucket, shardCount: 1, cascade: false}])).toBe('Bucket of user-1 · gpt-4')
  expect(bucketTitle('user-1', [bucket, bucket])).toBe('Buckets of user-1')
})

it('shows a row per shard, and a sum of several shards', async () => {
  expect((await listed(shardListing([bucket], NOW, false), PLAIN, 120)).join('\n')).toMatchInlineSnapshot(`
    "SHARD  LIMIT  LEVEL  CAPACITY  FULL  DEBT  REFILL/S  PRESSURE  AGE         EXPIRES
      all  rpm       20       100  20 %     0       0.5         -  -           -
        0  rpm       30        50  60 %     0       0.5      25 %  1 min 30 s  in 2 min
        1  rpm      -10        50   0 %    10       0.5      25 %  1 min 30 s  never"
  `)
  const single = {...bucket, shardCount: 1, shards: [shard(0, 30, {expiresAt: new Date(NOW - 1).toISOString()})]}
  expect((await listed(shardListing([single], NOW, false), PLAIN, 120))[1]).toMatch(/ 0 {2}rpm .*soon$/)
})

it('L6 shows level and debt exactly, so that they agree', async () => {
  const owing = {...bucket, limits: [{...level(-2.345), capacity: 100}]}
  expect((await listed(bucketListing([owing], NOW), PLAIN, 120))[1]).toMatch(/rpm +-2\.345 +100 +0 % +2\.345 /)
  const money = await listed(bucketListing([owing], NOW, new Map([['rpm', 'USD']])), PLAIN, 120)
  expect(money[1]).toMatch(/rpm +-\$0\.000003 +\$0\.0001 +0 % +\$0\.000003 /)
})

it('marks a ghost shard', async () => {
  const nothing = {limits: [], writePressure: null, writes: 0, refilledAt: null, refillAgeMs: null, expiresAt: null}
  const ghost = {...bucket, shardCount: 1, limits: [], shards: [shard(3, 0, {isGhost: true, ...nothing})]}
  expect((await listed(shardListing([ghost], NOW, false), PLAIN, 120))[1]).toMatch(/^3 \(ghost\) {2}- /)
})

it('prints plain numbers and all names in CSV', () => {
  expect(listedCsv(shardListing([bucket], NOW, true), PLAIN).slice(0, 3)).toEqual([
    'entity,resource,shard,limit,level,capacity,full,debt,refill,pressure,age,expires',
    'user-1,gpt-4,all,rpm,20,100,0.2,0,0.5,,,',
    'user-1,gpt-4,0,rpm,30,50,0.6,0,0.5,0.25,90000,2026-11-15T00:02:00.000Z',
  ])
})

it('lists a row per bucket and limit', async () => {
  expect(await listed(bucketListing([bucket], 0), PLAIN, 80)).toEqual([
    'ENTITY  LIMIT  LEVEL  CAPACITY  FULL  DEBT  REFILL/S  SHARDS  AGE',
    'user-1  rpm       20       100  20 %     0       0.5       2  1 min 30 s',
  ])
})

it('lists a limit in money as money', async () => {
  const [, row] = await listed(bucketListing([bucket], 0, new Map([['rpm', 'USD']])), PLAIN, 80)
  expect(row).toMatch(/rpm +\$0\.00002 +\$0\.0001 /)
})
