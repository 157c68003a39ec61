import {parseJson, parseObject} from './model-call.js'
import {recordOf, type UsageTally} from './model-usage.js'

type Event = Readonly<Record<string, unknown>>

/** A response in JSON. Gemini sends a stream as an array, unless asked for events. */
export function tallyAnswer(tally: UsageTally, text: string): void {
  const value = parseJson(text)
  for (const event of listOf(value)) tallyParts(tally, event)
  const answer = recordOf(value)
  tally.report(answer.usage ?? answer.usageMetadata, 'final')
  tally.addDelta([answer.choices, answer.content, answer.output, answer.candidates])
  tally.complete()
}

export function tallyEvent(tally: UsageTally, data: string): void {
  if (data === '[DONE]') tally.complete()
  const event = parseObject(data)
  // Bedrock wraps the events of the model.
  if (typeof event.bytes === 'string') tallyEvent(tally, Buffer.from(event.bytes, 'base64').toString())
  else tallyParts(tally, event)
}

function tallyParts(tally: UsageTally, event: Event): void {
  const parts = [...listOf(event.choices), ...listOf(event.candidates)]
  const isLast = parts.every(({finish_reason, finishReason}) => finish_reason ?? finishReason)
  // Anthropic reports the input at the start; some servers report the usage so far with every part.
  tally.report(recordOf(event.message).usage, 'start')
  tally.report(event.usage ?? event.usageMetadata ?? recordOf(event.response).usage, isLast ? 'final' : 'so far')
  if (event.delta !== undefined || parts.length > 0)
    tally.addDelta([event.delta, ...parts.map(({delta, text, content}) => [delta, text, content])])
  const isWhole = ['message_stop', 'response.completed', 'response.incomplete'].includes(String(event.type))
  if (isWhole || (event.candidates !== undefined && isLast)) tally.complete()
  if (event.type === 'error' || event.type === 'response.failed' || event.error) tally.fail()
}

const listOf = (value: unknown): Event[] => (Array.isArray(value) ? value.map(recordOf) : [])

/** Finds the events in the bytes of a stream. */
export interface EventReader {
  read(chunk: Uint8Array): void
  end(): void
}

/** Of server-sent events. An event ends with a blank line, and its data may span several lines. */
export class EventStreamReader implements EventReader {
  readonly #decoder = new TextDecoder()
  readonly #onData: (data: string) => void
  #rest = ''
  #data: string[] = []

  constructor(onData: (data: string) => void) {
    this.#onData = onData
  }

  read(chunk: Uint8Array): void {
    const lines = (this.#rest + this.#decoder.decode(chunk, {stream: true})).split(/\r\n|\n|\r(?!$)/)
    this.#rest = lines.pop() ?? ''
    for (const line of lines) this.#line(line)
  }

  end(): void {
    this.#line(this.#rest + this.#decoder.decode())
    this.#rest = ''
    this.#dispatch()
  }

  #line(line: string): void {
    if (line.startsWith('data:')) this.#data.push(line.slice(5).trim())
    else if (line === '') this.#dispatch()
  }

  #dispatch(): void {
    if (this.#data.length > 0) this.#onData(this.#data.join('\n'))
    this.#data = []
  }
}

/** Bytes of a frame before its headers (two lengths and a checksum), and after its payload. */
const PRELUDE_BYTES = 12
const CHECKSUM_BYTES = 4

/** Of Amazon's binary event streams, which Bedrock uses. */
export class AwsEventReader implements EventReader {
  readonly #onData: (data: string) => void
  #rest = Buffer.alloc(0)

  constructor(onData: (data: string) => void) {
    this.#onData = onData
  }

  read(chunk: Uint8Array): void {
    this.#rest = Buffer.concat([this.#rest, chunk])
    while (this.#rest.length >= PRELUDE_BYTES) {
      const size = this.#rest.readUInt32BE(0)
      if (size < PRELUDE_BYTES + CHECKSUM_BYTES || this.#rest.length < size) return
      const start = PRELUDE_BYTES + this.#rest.readUInt32BE(4)
      this.#onData(this.#rest.subarray(start, size - CHECKSUM_BYTES).toString())
      this.#rest = this.#rest.subarray(size)
    }
  }

  end(): void {}
}
