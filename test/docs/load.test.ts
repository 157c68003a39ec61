import {readFile} from 'node:fs/promises'
import {join} from 'node:path'
import {expect, it} from 'vitest'
import {GROWTH_UNITS_PER_SECOND} from '../../src/lib/core/buckets/shards.js'
import {STACK_OPTIONS} from '../../src/lib/infra/stack/options.js'
import {RECORDS_PER_CALL} from '../../src/lib/insight/cost/parts.js'
import {usageIdentity} from '../../src/lib/schema/usage-record.js'
import {ROOT} from '../helpers/run-command.js'

const defaultOf = (flag: string): number => Number(STACK_OPTIONS.find(option => option.flag === flag)?.default)

const TEXT = await readFile(join(ROOT, 'docs', 'load.md'), 'utf8')

it('names the indexes that a new usage record enters', () => {
  const record = {namespace: 'n', entity: 'e', resource: 'r', window: 'hourly', start: '2026-11-16T10:00:00Z'} as const
  const indexes = Object.keys(usageIdentity({...record, ttlSeconds: undefined})).flatMap(
    name => /^(GSI\d)PK$/.exec(name)?.[1] ?? [],
  )
  expect(indexes).toEqual(['GSI2', 'GSI4'])
  expect(TEXT).toContain('| 2: `GSI2` (its resource), `GSI4` (its namespace) |')
})

it('names only existing options, with their defaults', () => {
  const flags = [...TEXT.matchAll(/--([a-z][a-z-]+[a-z])/g)].map(([, flag]) => flag)
  expect(flags.length).toBeGreaterThan(5)
  expect(flags.filter(flag => !STACK_OPTIONS.some(option => option.flag === flag))).toEqual([])
  expect(defaultOf('batch-window')).toBe(30)
})

it('states how soon a splitting bucket fills a batch', () => {
  const fullAfterSeconds = RECORDS_PER_CALL / GROWTH_UNITS_PER_SECOND
  expect(fullAfterSeconds).toBeLessThan(defaultOf('batch-window') / 5)
  expect(TEXT).toContain(`too hot for one item, at ${GROWTH_UNITS_PER_SECOND} writes per second`)
  expect(TEXT).toContain(`a batch of 2,530 records is full after ${fullAfterSeconds.toFixed(1)} s`)
})
