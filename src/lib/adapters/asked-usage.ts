import {responseLike} from '../limiter/observed-stream.js'
import {patiently} from './call-charge.js'
import {EventStreamReader} from './model-answer.js'
import {parseObject, type ReadCall, withUsage} from './model-call.js'
import {recordOf, type UsageTally} from './model-usage.js'

export interface ReadAnswer {
  readonly response: Response
  /** The body of an error; may take long. */
  readonly error: Promise<string>
  /** Whether the adapter has asked for usage, which the client has not. */
  readonly isAsked: boolean
}

/** Calls whose provider rejects `stream_options` and reports usage without them, such as Mistral. */
const needless = new Set<string>()

/** Asks for the usage of a chat stream. A provider that rejects the question has done nothing else. */
export async function sendAsking(call: ReadCall, send: (call: ReadCall) => Promise<Response>): Promise<ReadAnswer> {
  const asking = needless.has(keyOf(call)) ? undefined : withUsage(call)
  const first = await readAnswer(send(asking ?? call), asking !== undefined)
  if (!asking || ![400, 422].includes(first.response.status) || !first.start().includes('stream_options')) return first
  await first.response.body?.cancel()
  const second = await readAnswer(send(call), false)
  if (second.response.ok) needless.add(keyOf(call))
  return second
}

/** The response to a call has ended. */
export function noteUsage(call: ReadCall, {counted}: UsageTally): void {
  if (!counted) needless.delete(keyOf(call))
}

const keyOf = ({call}: ReadCall): string => `${call.model} ${call.url.replace(/[?#].*$/, '')}`

/** Longest part of an error that is read, in characters. */
const MOST_ERROR_CHARACTERS = 2 ** 20

/** Reads a copy of an error. Waits for the rejection of a question, no longer than for the table. */
async function readAnswer(
  sent: Promise<Response>,
  isAsked: boolean,
): Promise<ReadAnswer & {/** The text that has arrived so far. */ readonly start: () => string}> {
  const response = await sent
  let text = ''
  const read = async () => {
    const decoder = new TextDecoder()
    for await (const chunk of response.clone().body ?? []) {
      text += decoder.decode(chunk, {stream: true})
      if (text.length > MOST_ERROR_CHARACTERS) break
    }
  }
  const error = (response.ok ? Promise.resolve() : read()).catch(() => {}).then(() => text)
  if (isAsked) await patiently(error)
  return {response, error, isAsked, start: () => text}
}

/** The stream that the client has asked for. */
export function withoutUsage(response: Response): Response {
  if (!response.body || !hasType(response, 'text/event-stream')) return response
  const copy = responseLike(response, withoutUsageEvent(response.body))
  copy.headers.delete('content-length')
  return copy
}

/**
 * Without the event that only reports usage, for clients that have not asked for it. Other bytes pass when their event is
 * complete. Reads nothing before it is asked to.
 */
function withoutUsageEvent(source: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
  const reader = source.getReader()
  let passing = ''
  const events = new EventStreamReader((data, raw) => {
    if (!isUsageOnly(data)) passing += raw
  })
  return new ReadableStream<Uint8Array>(
    {
      pull: async controller => {
        let isDone = false
        for (passing = ''; passing === '' && !isDone; ) {
          const {done, value} = await reader.read()
          isDone = done
          if (done) events.end()
          else events.read(value)
        }
        if (passing !== '') controller.enqueue(new Uint8Array(Buffer.from(passing, 'latin1')))
        if (isDone) controller.close()
      },
      cancel: reason => reader.cancel(reason),
    },
    {highWaterMark: 0},
  )
}

function isUsageOnly(data: string): boolean {
  if (!data.includes('"usage"')) return false
  const {choices, usage} = parseObject(data)
  const isEmpty = choices === null || (Array.isArray(choices) && choices.length === 0)
  return isEmpty && Object.keys(recordOf(usage)).length > 0
}

export const hasType = ({headers}: Response, type: string): boolean =>
  headers.get('content-type')?.toLowerCase().startsWith(type) ?? false
