import {expect, it} from 'vitest'
import {refusedLines, stackListing} from '../../../src/lib/cli/stack/list.js'
import type {ListedStack} from '../../../src/lib/infra/stack/list-stacks.js'
import {listed, listedCsv} from '../../helpers/lines.js'

const STACKS: ListedStack[] = [
  {
    name: 'prod',
    region: 'eu-west-1',
    tool: 'zael',
    status: 'UPDATE_COMPLETE',
    version: '0.1.0',
    schemaVersion: '0.9.0',
    createdAt: '2026-10-01T08:00:00Z',
    updatedAt: '2026-11-01T08:00:00Z',
  },
  {
    name: 'a-stack-with-a-rather-long-name-of-the-python-tool',
    region: 'us-east-1',
    tool: 'zae-limiter',
    status: 'CREATE_COMPLETE',
    version: '0.10.3',
    schemaVersion: '0.9.0',
    createdAt: '2026-09-01T08:00:00Z',
    updatedAt: null,
  },
]
const flags = {'no-header': false}

it.each([80, 120])('fits into %i columns', async width => {
  const lines = await listed(stackListing(STACKS, {allRegions: true}), flags, width)
  expect(lines.filter(line => line.length > width)).toEqual([])
})

it('omits the region if all stacks share it, unless --columns names it', async () => {
  expect((await listed(stackListing(STACKS, {allRegions: false}), flags, 120)).join('\n')).toMatchInlineSnapshot(`
    "NAME                                                TOOL         STATUS           VERSION  CREATED
    prod                                                zael         update complete  0.1.0    2026-10-01T08:00:00Z
    a-stack-with-a-rather-long-name-of-the-python-tool  zae-limiter  create complete  0.10.3   2026-09-01T08:00:00Z"
  `)
  const columns = {...flags, columns: 'name,region,updated'}
  expect(listedCsv(stackListing(STACKS, {allRegions: false}), columns)).toEqual([
    'name,region,updated',
    'prod,eu-west-1,2026-11-01T08:00:00Z',
    'a-stack-with-a-rather-long-name-of-the-python-tool,us-east-1,',
  ])
})

it('suggests a command when the list is empty, and names regions that refuse access', async () => {
  expect(await listed(stackListing([], {allRegions: false}), flags, 80)).toEqual([
    'No stacks found in this region. Create one: zael deploy',
  ])
  expect(refusedLines([{region: 'eu-west-3', code: 'aws.denied', reason: 'not allowed'}])).toEqual([
    'Could not list eu-west-3: not allowed',
  ])
})
