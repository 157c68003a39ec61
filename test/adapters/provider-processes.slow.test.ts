import {once} from 'node:events'
import {createServer} from 'node:http'
import type {AddressInfo} from 'node:net'
import {afterEach, beforeEach, expect, inject, it} from 'vitest'
import {Scene} from '../helpers/limiter.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {TestProcess} from './test-process.js'

const ACCOUNT = 'provider:openai:org-1'
const PROCESSES = 3
const RETRY_AFTER_SECONDS = 3

/** A process that calls the provider on command. */
class Caller extends TestProcess {
  /** The status of its next call. */
  call(): Promise<string> {
    this.child.stdin.write('\n')
    return this.line()
  }
}

describeOnEngine('a provider account and several processes', {timeout: 300_000}, () => {
  const table = useTable()
  let scene: Scene
  let callers: Caller[] = []
  /** By the provider's clock: when requests arrived, and when the first may be repeated; epoch ms. */
  let arrivals: number[] = []
  let clearsAtMs = 0
  const server = createServer((request, response) => {
    request.resume()
    arrivals.push(Date.now())
    const isFirst = arrivals.length === 1
    if (isFirst) clearsAtMs = Date.now() + RETRY_AFTER_SECONDS * 1000
    const fields = isFirst ? {'retry-after': String(RETRY_AFTER_SECONDS)} : {}
    response.writeHead(isFirst ? 429 : 200, {'content-type': 'application/json', ...fields})
    response.end('{}')
  })

  beforeEach(async () => {
    scene = new Scene(table)
    arrivals = []
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=1k/min', 'tpm=1M/min')
    await scene.configure({level: 'entity', entity: ACCOUNT, resource: 'gpt-4'}, 'rpm=600/min', 'tpm=1M/min')
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/chat/completions`
    const args = [inject('engineEndpoint'), table.name, scene.namespace, ACCOUNT, url]
    callers = Array.from({length: PROCESSES}, () => new Caller('calling-process', args))
  })
  afterEach(async () => {
    await Promise.all(callers.map(caller => caller.end('SIGKILL')))
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  })

  it('applies feedback to one process in all processes', async () => {
    expect(await Promise.all(callers.map(caller => caller.line()))).toEqual(callers.map(() => 'ready'))
    expect(await callers[0]?.call()).toBe('429')
    // The feedback is written before the response is passed on: from here on nobody may ask too early.
    for (let round = 0; round < 2; round++)
      expect(await Promise.all(callers.map(caller => caller.call()))).toEqual(callers.map(() => '200'))
    const [, ...later] = arrivals
    expect(later).toHaveLength(2 * PROCESSES)
    expect(later.filter(atMs => atMs < clearsAtMs)).toEqual([])
  })
})
