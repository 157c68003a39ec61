import {describe, expect, it} from 'vitest'
import {kindCounts, kindLines} from '../../../src/lib/cli/output/kind-counts.js'

describe('counts by kind', () => {
  it('have every kind, and a count of other items', () => {
    const byKind = {
      entity: 2,
      bucket: 1500,
      operation: 2,
      'resource-registry': 1,
      'entity-config-registry': 1,
      version: 3,
      other: 4,
    }
    expect(kindCounts(byKind)).toEqual({
      entities: 2,
      entityLimits: 0,
      resourceLimits: 0,
      systemLimits: 0,
      buckets: 1500,
      operations: 2,
      usage: 0,
      audit: 0,
      registries: 2,
      provisioner: 0,
      other: 7,
      total: 1513,
    })
    expect(kindCounts({}).total).toBe(0)
  })

  it('are printed for kinds with items, with a total', () => {
    expect(kindLines(kindCounts({entity: 1, bucket: 1500, other: 1}))).toEqual([
      '  entity                    1',
      '  bucket shards         1,500',
      '  items of other kinds      1',
      '  total                 1,502',
    ])
    expect(kindLines(kindCounts({usage: 3}))).toEqual(['  usage snapshots  3'])
    expect(kindLines(kindCounts({}))).toEqual([])
  })
})
