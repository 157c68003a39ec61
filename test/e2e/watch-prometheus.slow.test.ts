import {EventEmitter, once} from 'node:events'
import {createServer} from 'node:http'
import type {AddressInfo} from 'node:net'
import {afterEach, beforeAll, expect, inject, it, vi} from 'vitest'
import {openStack} from '../../src/lib/cli/base/context.js'
import {ZaelError} from '../../src/lib/core/errors.js'
import {isOwnMachine, listenAddress, metricsSource, serveMetrics} from '../../src/lib/live/metrics/metrics-server.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {parseExposition} from '../live/parse-exposition.js'
import {type EngineProxy, engineProxy} from './engine-proxy.js'
import {populate} from './populate.js'
import {RunningHere} from './running-zael.js'
import {tableCli} from './table-cli.js'

/** Passes requests on until `silence` is called, which resolves when the first request stays without an answer. */
async function silentProxy(): Promise<EngineProxy & {silence(): Promise<unknown>}> {
  let isOut = false
  const asked = new EventEmitter()
  const proxy = await engineProxy(inject('engineEndpoint'), () => {
    if (isOut) asked.emit('read')
    return isOut ? 'unanswered' : 'answered'
  })
  return {
    ...proxy,
    silence: () => {
      isOut = true
      return once(asked, 'read')
    },
  }
}

describeOnEngine('zael watch --prometheus', () => {
  const table = useTable()
  const cli = tableCli(table)
  const running = new Set<RunningHere>()
  beforeAll(() => populate(table))
  afterEach(async () => {
    for (const each of running) await each.stop('SIGTERM')
    running.clear()
  })

  /** Serves on a free port; the address. */
  async function serve(endpoint: string, ...flags: string[]): Promise<{zael: RunningHere; url: string}> {
    const words = ['watch', '--prometheus', '--listen', '0', '--stack', table.name, '--endpoint-url', endpoint]
    const zael = new RunningHere([...words, ...flags])
    running.add(zael)
    await zael.until(/Serving http/)
    return {zael, url: /http:\S+metrics/.exec(zael.output.stdout)?.[0] ?? ''}
  }

  it('prints the metrics once', async () => {
    const {code, stdout, stderr} = await cli.run('watch --prometheus')
    expect({code, stderr}).toEqual({code: 0, stderr: ''})
    const found = parseExposition(stdout)
    expect(found.get('zael_buckets_read')?.samples.get('namespace=default')).toBe(3)
    const gpt4 = 'namespace=default resource=gpt-4 limit=rpm'
    expect(found.get('zael_tokens_capacity')?.samples.get(gpt4)).toBe(200)
    expect(found.get('zael_tokens_available')?.samples.get(gpt4)).toBe(40)
    expect(found.get('zael_fill_ratio_min')?.samples.get(gpt4)).toBe(-0.2)
    expect(stdout).not.toContain('user-1')
  })

  it('serves metrics with one read per interval, and exits with the code of the signal', async () => {
    let requests = 0
    await using proxy = await engineProxy(inject('engineEndpoint'), () => {
      requests++
      return 'answered'
    })
    const {zael, url} = await serve(proxy.endpoint, '--interval', '1h')
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/metrics$/)
    const before = requests
    const answers = await Promise.all(Array.from({length: 5}, () => fetch(url)))
    const texts = await Promise.all(answers.map(answer => answer.text()))
    expect(requests).toBe(before)
    expect(answers.map(({status}) => status)).toEqual([200, 200, 200, 200, 200])
    expect(answers[0]?.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
    expect(parseExposition(texts[0] ?? '').has('zael_buckets')).toBe(true)
    expect((await fetch(new URL('/', url))).status).toBe(404)
    const posted = await fetch(url, {method: 'POST'})
    expect([posted.status, posted.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
    expect(await zael.stop('SIGINT')).toMatchObject({code: 130, stderr: ''})
    await expect(fetch(url)).rejects.toThrow()
  })

  it('shares one read among simultaneous scrapes, and reads again for later ones', async () => {
    const operations: string[] = []
    await using proxy = await engineProxy(inject('engineEndpoint'), operation => {
      operations.push(operation)
      return 'answered'
    })
    const flags = {stack: table.name, namespace: 'default', 'endpoint-url': proxy.endpoint}
    await using stack = await openStack(flags, {})
    const place = {namespace: 'default', ourVersion: '0.1.0'}
    const source = await metricsSource(
      stack,
      {scope: {kind: 'namespace'}, intervalMs: 0},
      place,
      new AbortController().signal,
    )
    const read = async (times: number): Promise<number> => {
      const before = operations.length
      const texts = await Promise.all(Array.from({length: times}, () => source()))
      expect(new Set(texts).size).toBe(1)
      return operations.length - before
    }
    await read(1)
    const alone = await read(1)
    expect(alone).toBeGreaterThan(0)
    expect(await read(5)).toBe(alone)
    expect(operations.filter(name => /Put|Update|Delete|Write/.test(name))).toEqual([])
  })

  it('does not wait for a pending read when it ends', async () => {
    await using proxy = await silentProxy()
    await using stack = await openStack({stack: table.name, namespace: 'default', 'endpoint-url': proxy.endpoint}, {})
    const place = {namespace: 'default', ourVersion: '0.1.0'}
    const ended = new AbortController()
    const source = await metricsSource(stack, {scope: {kind: 'namespace'}, intervalMs: 0}, place, ended.signal)
    await source()
    const unanswered = proxy.silence()
    const reading = expect(source()).rejects.toThrow('the metrics server has stopped')
    await unanswered
    ended.abort()
    await reading
  })

  it('leaves no timer that keeps the process alive when it ends during a scrape', async () => {
    await using proxy = await silentProxy()
    const {zael, url} = await serve(proxy.endpoint, '--interval', '500ms')
    const [started, cleared] = [vi.spyOn(globalThis, 'setTimeout'), vi.spyOn(globalThis, 'clearTimeout')]
    try {
      const unanswered = proxy.silence()
      // Until the interval is over, the last reading is served.
      const scrapes = setInterval(() => void fetch(url).catch(() => {}), 50)
      await unanswered
      clearInterval(scrapes)
      expect(await zael.stop('SIGINT')).toMatchObject({code: 130})
      const at = started.mock.calls.findIndex(([, ms]) => ms === 9000)
      expect(at).toBeGreaterThanOrEqual(0)
      expect(cleared.mock.calls.map(([timer]) => timer)).toContain(started.mock.results[at]?.value)
    } finally {
      started.mockRestore()
      cleared.mockRestore()
    }
  })

  it('explains a read that the table does not answer, with a hint', async () => {
    await using proxy = await silentProxy()
    await using stack = await openStack({stack: table.name, namespace: 'default', 'endpoint-url': proxy.endpoint}, {})
    const place = {namespace: 'default', ourVersion: '0.1.0'}
    const {signal} = new AbortController()
    const source = await metricsSource(stack, {scope: {kind: 'namespace'}, intervalMs: 0}, place, signal)
    await source()
    const unanswered = proxy.silence()
    vi.useFakeTimers({toFake: ['setTimeout', 'clearTimeout']})
    try {
      const reading = expect(source()).rejects.toMatchObject({
        code: 'watch.unanswered',
        message: `Reading table ${table.name} took more than 9 seconds, so no metrics are available now.`,
        hint: expect.stringContaining('zael doctor'),
      })
      await unanswered
      vi.advanceTimersByTime(9000)
      await reading
    } finally {
      vi.useRealTimers()
    }
  })

  it('handles signals after the first read, which --for limits as well', async () => {
    const asked = new EventEmitter()
    const unanswered = once(asked, 'read')
    await using proxy = await engineProxy(inject('engineEndpoint'), () => {
      asked.emit('read')
      return 'unanswered'
    })
    const before = process.listenerCount('SIGINT')
    const words = ['watch', '--prometheus', '--listen', '0', '--stack', table.name, '--endpoint-url', proxy.endpoint]
    const zael = new RunningHere([...words, '--for', '1s'])
    running.add(zael)
    await Promise.race([unanswered, zael.ended])
    expect(process.listenerCount('SIGINT')).toBe(before)
    expect(await zael.ended).toMatchObject({code: 1, stderr: expect.stringContaining('timed out')})
  })

  it('reports a port in use', async () => {
    const other = createServer()
    await new Promise<void>(resolve => other.listen(0, '127.0.0.1', resolve))
    try {
      const {port} = other.address() as AddressInfo
      const {code, stderr} = await cli.run(`watch --prometheus --listen ${port}`)
      expect(code).toBe(1)
      expect(stderr).toContain(`Cannot listen on 127.0.0.1:${port}: the port is in use.`)
    } finally {
      other.close()
    }
  })

  it.each([
    ['watch --prometheus --listen nonsense', 2, 'is not an address'],
    ['watch --prometheus --listen 70000', 2, 'is not an address'],
    ['watch --listen 0', 2, 'prometheus'],
    ['watch --prometheus --once', 2, 'once'],
    ['watch --prometheus --output yaml', 2, 'Prometheus text format'],
    ['watch --prometheus --output csv', 2, 'Prometheus text format'],
    ['watch --prometheus --listen 192.0.2.1:0', 1, 'another address'],
    ['watch --prometheus --resource gtp-4', 3, 'gtp-4'],
  ])('refuses: %s', async (command, expected, why) => {
    const {code, stdout, stderr} = await cli.run(command)
    expect(code).toBe(expected)
    expect(`${stdout}${stderr}`).toContain(why)
  })
})

it.each([
  ['9464', '127.0.0.1', 9464, true],
  ['localhost:1', 'localhost', 1, true],
  ['127.8.0.1:0', '127.8.0.1', 0, true],
  ['[::1]:80', '::1', 80, true],
  ['0.0.0.0:80', '0.0.0.0', 80, false],
  ['[::]:80', '::', 80, false],
])('refuses --listen %s', (text, host, port, loopback) => {
  expect(listenAddress(text)).toEqual({host, port})
  expect(isOwnMachine(host)).toBe(loopback)
})

it('answers a failed read with 503 and the reason, and keeps serving', async () => {
  let isBroken = true
  const server = await serveMetrics(
    async () => {
      if (isBroken) throw new ZaelError('failed', 'x', 'the table is asleep', {hint: 'Wake it.'})
      return ''
    },
    {host: '127.0.0.1', port: 0},
  )
  try {
    const answer = await fetch(server.url)
    expect([answer.status, await answer.text()]).toEqual([503, 'the table is asleep\nWake it.\n'])
    isBroken = false
    expect((await fetch(server.url)).status).toBe(200)
  } finally {
    await server.close()
  }
})
