export const PROBLEM_TYPE = 'application/problem+json'

/** The part of a `node:http` response that adapters need. */
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

/** Not called if the client disconnects before the headers are sent. */
export function onAnswered(response: NodeResponse, listener: (status: number | undefined) => Promise<void>): void {
  response.once('close', () => {
    // The response is out: an error, such as one from `refundIf`, must not end the process.
    listener(response.headersSent ? response.statusCode : undefined).catch(error => process.emitWarning(error))
  })
}

export function warningOnce(code: string, what: string): (error: unknown) => void {
  let hasWarned = false
  return error => {
    if (hasWarned) return
    hasWarned = true
    const why = error instanceof Error ? error.message : String(error)
    process.emitWarning(`${what} (${why}). Shown once per process.`, {type: 'ZaelWarning', code})
  }
}
