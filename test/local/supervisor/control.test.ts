import {once} from 'node:events'
import {createServer, type RequestListener} from 'node:http'
import type {AddressInfo} from 'node:net'
import {afterEach, beforeEach, describe, expect, it, onTestFinished} from 'vitest'
import {
  type ControlServer,
  fetchStatus,
  type LiveStatus,
  serveStatus,
} from '../../../src/lib/local/supervisor/control.js'

const TOKEN = 'a-random-token'
const status: LiveStatus = {uptimeMs: 5, enginePid: 4711, engineRestarts: 0, aggregator: null}
let control: ControlServer

beforeEach(async () => {
  control = await serveStatus(TOKEN, () => status)
})

afterEach(() => control.close())

/** Another program on a port of this machine. */
async function serve(listener: RequestListener): Promise<number> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

/** Forwards a request to the supervisor, records its headers and changes the response. */
const relay = (change: (body: string) => string, seen: string[] = []): RequestListener => {
  return async (request, response) => {
    seen.push(JSON.stringify(request.headers))
    const {authorization = ''} = request.headers
    const answer = await fetch(`http://127.0.0.1:${control.port}/`, {headers: {authorization}})
    response.setHeader('x-zael-proof', answer.headers.get('x-zael-proof') ?? '')
    response.end(change(await answer.text()))
  }
}

describe('the control port', () => {
  it('answers callers that know the token', async () => {
    expect(await fetchStatus(control.port, TOKEN)).toEqual(status)
    expect(await fetchStatus(control.port, 'another-token')).toBe(undefined)
  })

  it.each([undefined, '', TOKEN, `Bearer ${TOKEN}`, `zael ${'n'.repeat(36)} ${'0'.repeat(64)}`])(
    'reveals nothing to a request with the authorization %j',
    async authorization => {
      const headers: Record<string, string> = authorization === undefined ? {} : {authorization}
      const answer = await fetch(`http://127.0.0.1:${control.port}/`, {headers})
      expect({code: answer.status, body: await answer.text()}).toEqual({code: 404, body: ''})
      for (const name of ['content-type', 'x-zael-proof', 'server']) expect(answer.headers.has(name)).toBe(false)
    },
  )

  it('never gets or sends the token itself', async () => {
    const seen: string[] = []
    const port = await serve(relay(body => body, seen))
    expect(await fetchStatus(port, TOKEN)).toEqual(status)
    expect(seen.join()).not.toContain(TOKEN)
    expect(JSON.stringify(await fetchStatus(control.port, TOKEN))).not.toContain(TOKEN)
  })

  it('is not trusted when the response was changed, replayed, is too long, or has another shape', async () => {
    const changed = await serve(relay(body => body.replace('4711', '1')))
    expect(await fetchStatus(changed, TOKEN)).toBe(undefined)
    const recorded: Array<{proof: string; body: string}> = []
    const recorder = await serve(async (request, response) => {
      const {authorization = ''} = request.headers
      const answer = await fetch(`http://127.0.0.1:${control.port}/`, {headers: {authorization}})
      const proof = answer.headers.get('x-zael-proof') ?? ''
      recorded.push({proof, body: await answer.text()})
      response.setHeader('x-zael-proof', recorded[0]?.proof ?? '').end(recorded[0]?.body)
    })
    expect(await fetchStatus(recorder, TOKEN)).toEqual(status)
    expect(await fetchStatus(recorder, TOKEN)).toBe(undefined)
    const endless = await serve((_, response) => {
      const send = () => response.destroyed || response.write('x'.repeat(10_000), send)
      send()
    })
    expect(await fetchStatus(endless, TOKEN)).toBe(undefined)
    const odd = await serveStatus(TOKEN, () => ({...status, enginePid: 'x'}) as unknown as LiveStatus)
    expect(await fetchStatus(odd.port, TOKEN)).toBe(undefined)
    await odd.close()
  })

  it('ignores keys of a newer version', async () => {
    const newer = await serveStatus(TOKEN, () => ({...status, future: 1}))
    expect(await fetchStatus(newer.port, TOKEN)).toEqual(status)
    await newer.close()
  })
})
