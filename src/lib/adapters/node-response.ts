/** What adapters need of a response of `node:http`. */
export interface NodeResponse {
  statusCode: number
  readonly headersSent: boolean
  readonly destroyed: boolean
  setHeader(name: string, value: string): unknown
  end(body?: string): unknown
  once(event: 'close', listener: () => void): unknown
  removeListener(event: 'close', listener: () => void): unknown
}

export async function whileConnected<T>(response: NodeResponse, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const leaving = new AbortController()
  const leave = () => leaving.abort()
  if (response.destroyed) leave()
  response.once('close', leave)
  try {
    return await work(leaving.signal)
  } finally {
    response.removeListener('close', leave)
  }
}

/** Calls back with the status when the response has been sent; never when the client has left before its head was. */
export function onAnswered(response: NodeResponse, listener: (status: number) => Promise<void>): void {
  response.once('close', () => {
    // The answer is out: an error, such as one of `refundIf`, must not end the process.
    if (response.headersSent) listener(response.statusCode).catch(error => process.emitWarning(error))
  })
}
