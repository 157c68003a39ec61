import {once} from 'node:events'
import {createServer, type IncomingMessage, type ServerResponse} from 'node:http'
import type {AddressInfo} from 'node:net'
import {afterEach, expect, it} from 'vitest'
import {onAnswered} from '../../src/lib/adapters/problem.js'

const server = createServer()
afterEach(() => {
  server.closeAllConnections()
  server.close()
})

it('turns an error after the response into a warning', async () => {
  server.on('request', (_request: IncomingMessage, response: ServerResponse) => {
    onAnswered(response, async () => {
      throw new Error('refundIf has a bug')
    })
    response.end('fine')
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const warned = once(process, 'warning')
  const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
  expect(await response.text()).toBe('fine')
  expect(await warned).toMatchObject([{message: 'refundIf has a bug'}])
})
