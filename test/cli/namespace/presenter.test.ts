import {describe, expect, it} from 'vitest'
import {
  createdLines,
  namespaceJson,
  namespaceListing,
  orphanListing,
  purgedLines,
  purgeInterrupted,
  purgeJson,
  purgePlanLines,
  showLines,
} from '../../../src/lib/cli/namespace/presenter.js'
import {kindCounts} from '../../../src/lib/cli/output/kind-counts.js'
import type {Namespace} from '../../../src/lib/repository/namespaces/purge.js'
import {listed} from '../../helpers/lines.js'

const acme: Namespace = {
  id: 'id-acme',
  name: 'acme',
  status: 'active',
  createdAt: '2026-01-01T00:00:00Z',
  deletedAt: undefined,
  halfDeleted: false,
}
const gone: Namespace = {...acme, id: 'id-gone', name: 'gone', status: 'deleted', deletedAt: '2026-02-01T00:00:00Z'}
const half: Namespace = {...acme, id: 'id-half', name: 'half', halfDeleted: true}
const flags = {'no-header': false}

describe('namespaces', () => {
  it('have the same JSON keys in every case', () => {
    expect(namespaceJson(acme)).toEqual({
      name: 'acme',
      id: 'id-acme',
      status: 'active',
      halfDeleted: false,
      createdAt: '2026-01-01T00:00:00Z',
      deletedAt: null,
      levels: 'parent',
    })
    expect(Object.keys(namespaceJson(gone))).toEqual(Object.keys(namespaceJson(half)))
    expect(purgeJson(gone, true, {bucket: 2})).toMatchObject({id: 'id-gone', dryRun: true, counts: {total: 2}})
  })

  it('are reported as created or already existing', () => {
    expect(
      createdLines([
        {namespace: acme, created: true},
        {namespace: gone, created: false},
      ]),
    ).toEqual(['Created namespace "acme" (id-acme)', 'Namespace "gone" (id-gone) already exists'])
  })

  it('are listed with their state', async () => {
    expect(await listed(namespaceListing([acme]), flags, 80)).toEqual([
      'NAME  ID       CREATED               STATUS',
      'acme  id-acme  2026-01-01T00:00:00Z  active',
    ])
    expect(await listed(namespaceListing([]), flags, 80)).toEqual(['No namespaces'])
    expect(await listed(orphanListing([gone, half, {...gone, status: 'purging'}]), flags, 80)).toEqual([
      'NAME  ID       DELETED               STATUS',
      'gone  id-gone  2026-02-01T00:00:00Z  deleted',
      'half  id-half  -                     half deleted',
      'gone  id-gone  2026-02-01T00:00:00Z  purging',
    ])
    expect(await listed(orphanListing([]), flags, 80)).toEqual(['No deleted namespaces'])
    expect((await listed(orphanListing([gone]), {...flags, columns: 'id,created'}, 80))[1]).toContain('2026-01-01')
  })

  it('are shown with counts only when requested', () => {
    expect(showLines(acme, undefined)).toEqual([
      'Namespace "acme"',
      '  id       id-acme',
      '  status   active',
      '  created  2026-01-01T00:00:00Z',
      '  charges  the entity and its direct parent',
    ])
    expect(showLines({...acme, levels: 'all'}, undefined).at(-1)).toMatch(/all parents, up to eight levels$/)
    expect(showLines(acme, kindCounts({})).slice(5)).toEqual(['', 'Items in the index of the namespace:', '  nothing'])
    expect(showLines(gone, kindCounts({bucket: 2})).at(-1)).toBe('  bucket shards  2')
  })

  it('show the plan, cost and result of a purge within 80 columns', () => {
    const counts = kindCounts({entity: 1, bucket: 12_345})
    const plan = purgePlanLines(gone, counts)
    expect(plan).toEqual([
      'Purging namespace "gone" (id-gone) would permanently delete:',
      '  entity              1',
      '  bucket shards  12,345',
      '  total          12,346',
      'A purge reads the whole table once. Each deleted item costs one write in the',
      'table and one in each index that contains it.',
    ])
    expect(Math.max(...plan.map(line => line.length))).toBeLessThanOrEqual(80)
    expect(purgedLines(gone, kindCounts({}))).toEqual(['Purged namespace "gone" (id-gone). Deleted:', '  nothing'])
  })

  it('show how much an interrupted purge deleted, and how to resume', () => {
    expect(purgeInterrupted(gone, {deleted: 1200, byKind: {bucket: 1200}})).toMatchObject({
      kind: 'interrupted',
      message: 'Interrupted: at least 1,200 items of namespace "gone" (id-gone) are deleted, the rest remains.',
      hint: 'Run it again to continue: zael namespace purge id-gone --confirm gone',
      details: {id: 'id-gone', name: 'gone', counts: {buckets: 1200, total: 1200}},
    })
  })
})
