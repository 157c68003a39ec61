import {parseJson} from '../core/text/text.js'
import {parseObject} from './model-call.js'
import {recordOf, tokensOfTexts, type UsageTally} from './model-usage.js'

type Event = Readonly<Record<string, unknown>>

/** A response whose type is not an event stream. Gemini streams an array unless the call asks for events. */
export function tallyAnswer(tally: UsageTally, text: string): void {
  const value = parseJson(text)
  if (value === undefined) {
    tallyLines(tally, text)
    return
  }
  for (const event of listOf(value)) tallyParts(tally, event)
  const {usage, usageMetadata, ...answer} = recordOf(value)
  const parts = [answer.choices, answer.content, answer.output, answer.candidates].filter(part => part !== undefined)
  tally.addDelta(parts.length > 0 ? parts : answer)
  reportIn(tally, recordOf(value), 'final')
  tally.complete()
  if (parts.length === 0 && UNREASONED.some(field => answer[field] !== undefined)) tally.hidesNothing()
}

/** Fields of embeddings, rankings, transcripts and images, which no hidden reasoning precedes. */
const UNREASONED = ['data', 'embedding', 'embeddings', 'results', 'predictions', 'text', 'images']

/** Plain text, JSON in lines as of Ollama, or events with a wrong type. */
function tallyLines(tally: UsageTally, text: string): void {
  for (const line of text.split(/\r\n|\n|\r/)) tallyEvent(tally, line.replace(/^data:/, '').trim())
  if (tally.counted) return
  tally.addDelta(text)
  if (!CUT_OFF.test(text)) tally.hidesNothing()
}

/** The start of JSON or of events that are no longer whole. */
const CUT_OFF = /^\s*([[{]|(data|event|id|retry)?:)/

export function tallyEvent(tally: UsageTally, data: string): void {
  if (data === '[DONE]') tally.complete()
  const event = parseObject(data)
  // Bedrock wraps the events of the model.
  if (typeof event.bytes === 'string') tallyEvent(tally, Buffer.from(event.bytes, 'base64').toString())
  else tallyParts(tally, event)
}

const LAST_EVENTS = new Set<unknown>(['message_stop', 'message-end', 'response.completed', 'response.incomplete'])

function tallyParts(tally: UsageTally, event: Event): void {
  const parts = [...listOf(event.choices), ...listOf(event.candidates)]
  for (const {index = 0, finish_reason, finishReason} of parts)
    tally.follow(index, Boolean(finish_reason ?? finishReason))
  const isLast = parts.length === 0 || tally.haveAllEnded
  if (event.delta !== undefined || parts.length > 0)
    tally.addDelta([event.delta, ...parts.map(({delta, text, content}) => [delta, text, content])])
  // Models of Bedrock and Ollama send text in fields of their own.
  else if (event.type === undefined && !event.choices && !event.candidates) tallyOther(tally, event)
  // Anthropic reports the input at the start; some servers report the usage so far with every part.
  tally.report(recordOf(event.message).usage, 'start')
  reportIn(tally, event, isLast ? 'final' : 'so far')
  if (LAST_EVENTS.has(event.type) || event.done === true || (event.candidates !== undefined && isLast)) tally.complete()
}

function tallyOther(tally: UsageTally, {usage: _, ...event}: Event): void {
  if (tokensOfTexts(event) > 0) tally.addDelta(event)
}

/** Places of usage reports; the last one that is present counts. */
function reportIn(tally: UsageTally, event: Event, of: 'so far' | 'final'): void {
  tally.report(event, of)
  for (const place of [event.x_groq, event.delta, event.error, event.response, ...listOf(event.choices)])
    reportOf(tally, recordOf(place), of)
  tally.report(event['amazon-bedrock-invocationMetrics'], of)
  reportOf(tally, event, of)
}

/** Usage, with what OpenAI reports beside it. `report` ignores absent fields. */
function reportOf(tally: UsageTally, place: Event, of: 'so far' | 'final'): void {
  const {tool_usage = null, service_tier = null, usage, usageMetadata} = place
  tally.report({tool_usage, service_tier, ...recordOf(usage ?? usageMetadata)}, of)
}

const listOf = (value: unknown): Event[] => (Array.isArray(value) ? value.map(recordOf) : [])

/** Finds the events in the bytes of a stream. */
export interface EventReader {
  read(chunk: Uint8Array): void
  end(): void
}

/** Of server-sent events. An event ends with a blank line, and its data may span several lines. */
export class EventStreamReader implements EventReader {
  readonly #onEvent: (data: string, raw: string) => void
  /** Parts of the last line: joined once, because a line can hold a whole image. */
  #rest: string[] = []
  #lines: string[] = []

  /** `raw`: the whole event, a character for each byte. `data` is empty if the event has none. */
  constructor(onEvent: (data: string, raw: string) => void) {
    this.#onEvent = onEvent
  }

  read(chunk: Uint8Array): void {
    const text = Buffer.from(chunk).toString('latin1')
    const isWithin = !/[\r\n]/.test(text) && !this.#rest.at(-1)?.endsWith('\r')
    this.#rest.push(text)
    if (isWithin) return
    const lines = this.#rest.join('').split(/(?<=\n|\r(?!\n|$))/)
    this.#rest = lines.at(-1)?.endsWith('\n') ? [] : [lines.pop() ?? '']
    for (const line of lines) this.#line(line)
  }

  end(): void {
    this.#line(this.#rest.join(''))
    this.#rest = []
    this.#dispatch()
  }

  #line(line: string): void {
    this.#lines.push(line)
    if (/^[\r\n]*$/.test(line)) this.#dispatch()
  }

  #dispatch(): void {
    const raw = this.#lines.join('')
    const lines = this.#lines.map(line =>
      Buffer.from(line, 'latin1')
        .toString()
        .replace(/^\uFEFF/, ''),
    )
    this.#lines = []
    const data = lines.flatMap(line => (line.startsWith('data:') ? [line.slice(5).trim()] : []))
    if (raw !== '') this.#onEvent(data.join('\n'), raw)
  }
}

/** Bytes of a frame before its headers (two lengths and a checksum), and after its payload. */
const PRELUDE_BYTES = 12
const CHECKSUM_BYTES = 4

/** Amazon's own limit is 24 MiB. */
const MOST_FRAME_BYTES = 2 ** 25

/** Of Amazon's binary event streams, which Bedrock uses. Ignores bytes after an invalid length. */
export class AwsEventReader implements EventReader {
  readonly #onData: (data: string) => void
  #chunks: Uint8Array[] = []
  #bytes = 0
  /** Bytes that complete the next step: joined once. */
  #needed = PRELUDE_BYTES

  constructor(onData: (data: string) => void) {
    this.#onData = onData
  }

  read(chunk: Uint8Array): void {
    if (this.#needed > MOST_FRAME_BYTES) return
    this.#chunks.push(chunk)
    this.#bytes += chunk.length
    if (this.#bytes < this.#needed) return
    let rest = Buffer.concat(this.#chunks)
    for (this.#needed = PRELUDE_BYTES; rest.length >= this.#needed; ) {
      const size = rest.readUInt32BE(0)
      this.#needed = size < PRELUDE_BYTES + CHECKSUM_BYTES ? Number.POSITIVE_INFINITY : size
      if (rest.length < this.#needed) break
      const start = PRELUDE_BYTES + rest.readUInt32BE(4)
      this.#onData(rest.subarray(start, size - CHECKSUM_BYTES).toString())
      rest = rest.subarray(size)
      this.#needed = PRELUDE_BYTES
    }
    this.#chunks = this.#needed > MOST_FRAME_BYTES ? [] : [rest]
    this.#bytes = rest.length
  }

  end(): void {}
}
