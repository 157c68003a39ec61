import {randomBytes} from 'node:crypto'
import {describe, expect, it} from 'vitest'
import type {Transport} from '../../../src/lib/dynamo/transport.js'
import {openMigrationContext} from '../../../src/lib/migrate/walk/lease.js'
import {tablePages} from '../../../src/lib/migrate/walk/scan.js'
import {type Item, s} from '../../../src/lib/schema/attribute-value.js'

const item = (partition: string, sort: string): Item => ({PK: s(partition), SK: s(sort)})

/** Which partitions each page of a scan has as a whole, if the engine answers with these pages. */
async function wholePartitions(pages: readonly (readonly Item[])[]): Promise<string[][]> {
  let at = 0
  const transport = {
    send: async (operation: string) => {
      if (operation !== 'Scan') return {}
      const Items = pages[at++] ?? []
      return {Items, ...(at < pages.length ? {LastEvaluatedKey: Items.at(-1)} : {})}
    },
  } as Transport
  const backoff = {random: () => 0, sleep: async () => {}}
  const context = await openMigrationContext({name: 'old', transport, clock: Date.now, randomBytes, backoff})
  const found: string[][] = []
  for await (const {isWhole} of tablePages(context)) found.push(['A', 'B', 'C', 'D'].filter(isWhole))
  return found
}

describe('the pages of a scan', () => {
  it('know which partitions cannot continue on another page', async () => {
    const pages = [
      [item('A', '1'), item('A', '2'), item('B', '1')],
      [item('B', '2'), item('C', '1'), item('D', '1')],
      [item('D', '2')],
    ]
    expect(await wholePartitions(pages)).toEqual([['A'], ['C'], []])
  })

  it('know it of a partition that ends with its page only from the next one', async () => {
    expect(await wholePartitions([[item('A', '1'), item('B', '1')], [item('C', '1')]])).toEqual([['A'], ['C']])
  })

  it('trust no page on which the items of a partition are not side by side', async () => {
    expect(await wholePartitions([[item('A', '1'), item('B', '1'), item('A', '2')]])).toEqual([[]])
  })
})
