import {once} from 'node:events'
import {type AddressInfo, createServer} from 'node:net'

/** A loopback port that is free at this moment; another process can take it before the caller binds it. */
export async function findFreePort(): Promise<number> {
  return bindOnce(0)
}

export async function isPortTaken(port: number): Promise<boolean> {
  try {
    await bindOnce(port)
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EADDRINUSE'
  }
}

async function bindOnce(port: number): Promise<number> {
  const server = createServer().listen(port, '127.0.0.1')
  await once(server, 'listening')
  const {port: bound} = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return bound
}
