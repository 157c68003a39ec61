import {expect, it} from 'vitest'
import {compareRecords} from '../../../src/lib/cli/verify/presenter.js'
import {Aborted} from '../../../src/lib/dynamo/errors.js'
import type {Transport} from '../../../src/lib/dynamo/transport.js'

/** Ctrl-C during the first request. */
const transport: Transport = {
  send: async operation => {
    process.emit('SIGINT')
    throw new Aborted(operation, false, new Error('stopped'))
  },
}
const table = {
  name: 'prod',
  transport,
  clock: () => Date.UTC(2026, 10, 17),
  randomBytes: (count: number) => new Uint8Array(count),
  backoff: {random: () => 0, sleep: async () => {}},
}

it.each([
  [{}, undefined, 'Run again: zael verify -s prod'],
  [{entity: "o'hara"}, undefined, `Run again: zael verify -s prod --entity 'o'\\''hara'`],
  [
    {since: '2026-11-01 14:30', fix: true, 'rate-limit': 200},
    'abc',
    "Resume: zael verify -s prod --since '2026-11-01 14:30' --fix --rate-limit 200 --cursor abc",
  ],
])('repeats the flags %o in the command after Ctrl-C', async (flags, cursor, hint) => {
  const entity = 'entity' in flags ? {namespace: 'n1', entity: flags.entity as string} : undefined
  const checked = compareRecords(table, 'prod', {entity, cursor}, flags)
  await expect(checked).rejects.toMatchObject({code: 'verify.interrupted', kind: 'interrupted', hint})
})
