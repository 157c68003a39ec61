import {type ChildProcess, spawn} from 'node:child_process'
import {once} from 'node:events'
import {mkdtemp, readFile, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {fileURLToPath} from 'node:url'
import {afterEach, beforeEach, describe, expect, inject, it} from 'vitest'
import {resolveConnection} from '../../../src/lib/dynamo/connection.js'
import {createTable, loadTableDefinition} from '../../../src/lib/dynamo/table-definition.js'
import {createSdkTransport} from '../../../src/lib/dynamo/transports/sdk.js'
import {startEngine} from '../../../src/lib/local/engines/engine.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'
import {enginesUnderTest} from '../support.js'
import {openStreams, testPoller, until, versions, writeVersions} from './poll-support.js'

const PROGRAM = fileURLToPath(new URL('../../aggregator/fixtures/poller-process.ts', import.meta.url))

let folder = ''
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'zael-test-'))
})
afterEach(() => rm(folder, {recursive: true}))

describeOnEngine('a poller that is killed', () => {
  const table = useTable({stream: true})
  const items = ['a', 'b', 'c']
  const all = versions(items, 0, 200)
  let running: ChildProcess | undefined

  afterEach(() => {
    running?.kill('SIGKILL')
  })

  it('misses nothing and keeps the changes of each item in order', {timeout: 300_000}, async () => {
    await writeVersions(table.transport, table.name, items, 0, 200)
    const log = join(folder, 'delivered')
    await writeFile(log, '')
    const delivered = async () => (await readFile(log, 'utf8')).trim().split('\n')
    const args = [inject('engineEndpoint'), table.name, join(folder, 'checkpoint.json'), log]

    for (const target of [40, 100, 160]) {
      running = spawn(process.execPath, ['--import', 'tsx', PROGRAM, ...args], {stdio: ['ignore', 'ignore', 'inherit']})
      const ended = once(running, 'exit')
      await until(async () => (await delivered()).length >= target)
      running.kill('SIGKILL')
      await ended
    }
    const before = (await delivered()).length
    expect(before).toBeLessThan(all.length)
    running = spawn(process.execPath, ['--import', 'tsx', PROGRAM, ...args], {stdio: ['ignore', 'ignore', 'inherit']})
    const isComplete = async () => new Set(await delivered()).size === all.length
    await until(isComplete)

    const found = await delivered()
    // Each of the three kills may repeat one batch.
    expect([...new Set(found)]).toEqual(all)
    expect(found.length).toBeLessThanOrEqual(all.length + 3 * 10)
    const ended = once(running, 'exit')
    running.kill('SIGKILL')
    await ended
  })
})

describe.each(await enginesUnderTest())('an engine that is restarted ($name)', ({name, isSkipped}) => {
  it.skipIf(isSkipped)(
    'continues with the same stream: nothing missed, nothing repeated',
    {timeout: 300_000},
    async () => {
      const dataDir = join(folder, 'data')
      const items = ['a', 'b']
      const tableName = 'polled'
      let engine = await startEngine({engine: name, dataDir}, {stopGraceMs: 20_000, readyTimeoutMs: 100_000})
      const {endpoint, port} = engine
      const transport = createSdkTransport({
        connection: resolveConnection({endpointUrl: endpoint}, {}),
        clock: Date.now,
      })
      const stream = openStreams(endpoint)
      const checkpointFile = join(folder, 'checkpoint.json')
      const {poller, delivered} = testPoller({tableName, transport, stream, checkpointFile, batchSize: 4})
      try {
        await createTable(transport, await loadTableDefinition({tableName}))
        await writeVersions(transport, tableName, items, 0, 20)
        poller.start()
        await until(() => delivered.length >= 10)
        await engine.stop()
        await until(() => poller.status().errors > 0)
        engine = await startEngine({engine: name, dataDir, port}, {stopGraceMs: 20_000, readyTimeoutMs: 100_000})
        await writeVersions(transport, tableName, items, 20, 30)
        await until(() => delivered.length >= 60)
        expect(delivered).toEqual(versions(items, 0, 30))
      } finally {
        await poller.stop()
        stream.close()
        await transport.close()
        await engine.stop()
      }
    },
  )
})
