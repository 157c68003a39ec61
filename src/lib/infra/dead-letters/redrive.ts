import {GetFunctionCommand} from '@aws-sdk/client-lambda'
import {parseLambdaSettings} from '../../aggregator/environment.js'
import {type ReplayedWindow, replay} from '../../aggregator/replay.js'
import type {StreamRecord} from '../../aggregator/stream-event.js'
import {ZaelError} from '../../core/errors.js'
import {WINDOWS, type Window} from '../../core/window.js'
import type {StreamTransport} from '../../dynamo/transports/stream.js'
import {readRange} from '../../dynamo/transports/stream-shards.js'
import type {Table} from '../../repository/table/table.js'
import {startsBetween} from '../../repository/usage/sum.js'
import type {Aws} from '../aws/clients.js'
import {callUnlessMissing} from '../aws/errors.js'
import type {DeadLetter, DeadLetterQueue} from './queue.js'

/** Hides the messages of a run from other readers; the end of the run releases the rest. */
const HIDDEN_SECONDS = 15 * 60

/** `undecided`: some windows may already include it. `lost`: no longer in the stream. `failed`: retry it. */
export type RedriveState = 'counted' | 'undecided' | 'lost' | 'failed' | 'unreadable'

export interface RedrivenLetter {
  readonly letter: DeadLetter
  readonly state: RedriveState
  readonly records: number
  readonly counted: number
  readonly undecided: readonly ReplayedWindow[]
  /** For `lost`: the windows that lack the consumption of uncounted records. */
  readonly lostWindows: readonly {readonly window: Window; readonly start: string}[]
  /** Audit events put back into the table, to expire and be archived. */
  readonly putBack: number
  readonly uncounted: number
  readonly error: ZaelError | undefined
  readonly isDeleted: boolean
}

export interface RedriveOptions {
  readonly table: Table
  readonly aws: Aws
  readonly stack: string
  readonly queue: DeadLetterQueue
  readonly stream: StreamTransport
  readonly discard: boolean
  readonly signal?: AbortSignal | undefined
  readonly onProgress?: ((done: number, of: number) => void) | undefined
}

/** Counts records in stream order. Deletes a message only after counting all its records, so a run can be repeated. */
export async function redrive(options: RedriveOptions): Promise<RedrivenLetter[]> {
  const {table, aws, stack, queue, stream, discard, signal, onProgress} = options
  const settings = await readAggregatorSettings(aws, stack)
  const letters = await queue.take(HIDDEN_SECONDS, undefined, signal)
  const done: RedrivenLetter[] = []
  const left = new Set(letters)
  try {
    for (const letter of letters) {
      signal?.throwIfAborted()
      const outcome = await countLetter(letter)
      const isDeleted = outcome.state === 'counted' || (discard && outcome.state !== 'failed')
      if (isDeleted) {
        await queue.delete(letter)
        left.delete(letter)
      }
      done.push({...outcome, isDeleted})
      onProgress?.(done.length, letters.length)
      // Counting later records of the same items first would make these uncountable.
      if (outcome.state === 'failed') break
    }
  } finally {
    for (const letter of left) await queue.release(letter).catch(() => {})
  }
  return done

  async function countLetter(letter: DeadLetter): Promise<Omit<RedrivenLetter, 'isDeleted'>> {
    const nothing = {letter, records: 0, counted: 0, undecided: [], lostWindows: [], putBack: 0, uncounted: 0}
    if (!letter.range?.streamArn.includes(`:table/${table.name}/stream/`))
      return {...nothing, state: 'unreadable', error: undefined}
    try {
      const {streamArn} = letter.range
      const records = await readRange(stream, letter.range, {signal})
      if (!records)
        return {...nothing, state: 'lost', lostWindows: windowsOf(letter, settings.windows), error: undefined}
      const event = {Records: records.map(record => ({...record, eventSourceARN: streamArn}) as StreamRecord)}
      const archives = settings.archiveBucket !== undefined
      const outcome = await replay(table, event, {...settings, archives}, () => {})
      const state = outcome.undecided.length === 0 ? 'counted' : 'undecided'
      return {...nothing, ...outcome, state, error: undefined}
    } catch (error) {
      if (signal?.aborted || !(error instanceof ZaelError)) throw error
      return {...nothing, state: 'failed', error}
    }
  }
}

export function windowsOf(
  {firstAt, lastAt}: Pick<DeadLetter, 'firstAt' | 'lastAt'>,
  windows: readonly Window[],
): {window: Window; start: string}[] {
  if (firstAt === undefined) return []
  const [firstMs, lastMs] = [Date.parse(firstAt), Date.parse(lastAt ?? firstAt)]
  return WINDOWS.filter(window => windows.includes(window)).flatMap(window =>
    startsBetween(window, firstMs, Math.max(firstMs, lastMs)).map(start => ({window, start})),
  )
}

async function readAggregatorSettings(aws: Aws, stack: string): Promise<ReturnType<typeof parseLambdaSettings>> {
  const name = `${stack}-aggregator`
  const found = await callUnlessMissing(`read function "${name}"`, async () => {
    return (await aws.lambda()).send(new GetFunctionCommand({FunctionName: name}))
  })
  if (!found) {
    throw new ZaelError('notFound', 'deadletters.function', `Function "${name}" not found.`, {
      hint: `A redrive needs the settings of this function. Check it: zael status --stack ${stack}`,
      details: {stack, function: name},
    })
  }
  const {Runtime: runtime = '', Environment: environment} = found.Configuration ?? {}
  if (runtime.startsWith('python')) {
    throw new ZaelError('conflict', 'deadletters.python', `"${name}" is an aggregator of the Python tool.`, {
      hint: 'It does not mark the records that it counted, so a redrive could count some of them twice.',
      details: {stack, function: name, runtime},
    })
  }
  return parseLambdaSettings(environment?.Variables ?? {})
}
