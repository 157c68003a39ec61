import {readFile, rename, writeFile} from 'node:fs/promises'
import type {ShardDescription} from '../../dynamo/transports/stream.js'

/** How far a shard has been read: up to and including a record, or to its end. */
export type ShardProgress = {readonly sequence: string} | {readonly done: true}

/** How far a stream has been read; a shard that is missing has not been started. */
export interface Checkpoint {
  readonly streamArn: string
  readonly shards: Readonly<Record<string, ShardProgress>>
}

/** The progress of a poller, in memory and in its checkpoint file. */
export class StreamProgress {
  readonly #file: string
  #checkpoint: Checkpoint = {streamArn: '', shards: {}}
  #isLoaded = false

  constructor(file: string) {
    this.#file = file
  }

  /** Empty before the first `follow` when there was no file. */
  get streamArn(): string {
    return this.#checkpoint.streamArn
  }

  get shards(): Checkpoint['shards'] {
    return this.#checkpoint.shards
  }

  /** Sequence number of the last record delivered from a shard. */
  lastOf(shardId: string): string | undefined {
    const progress = this.shards[shardId]
    return progress && 'sequence' in progress ? progress.sequence : undefined
  }

  /** Reads the file, once. If it is lost or damaged, reading starts over; the handler is idempotent. */
  async load(): Promise<'unreadable' | undefined> {
    if (this.#isLoaded) return undefined
    const found = await readCheckpoint(this.#file)
    this.#isLoaded = true
    if (found === 'unreadable') return found
    if (found) this.#checkpoint = found
    return undefined
  }

  /** Sets the stream and its shards. Another stream starts from nothing; shards that no longer exist are dropped. */
  follow(streamArn: string, listed: readonly ShardDescription[]): void {
    const ids = new Set(listed.map(shard => shard.ShardId))
    const kept = Object.entries(this.shards).filter(([id]) => ids.has(id))
    this.#checkpoint = {streamArn, shards: streamArn === this.streamArn ? Object.fromEntries(kept) : {}}
  }

  /**
   * The shards to read now: unfinished ones whose parent is finished or no longer listed. The changes of one item move
   * from a closed shard to its children, so this keeps them in order.
   */
  readable(listed: readonly ShardDescription[]): string[] {
    const ids = new Set(listed.map(shard => shard.ShardId))
    const isDone = (id: string) => 'done' in (this.shards[id] ?? {})
    return listed
      .filter(({ShardId: id, ParentShardId: parent}) => {
        const isParentOpen = parent !== undefined && ids.has(parent) && !isDone(parent)
        return !isDone(id) && !isParentOpen
      })
      .map(shard => shard.ShardId)
  }

  async save(shardId: string, progress: ShardProgress): Promise<void> {
    const checkpoint = {streamArn: this.streamArn, shards: {...this.shards, [shardId]: progress}}
    await writeCheckpoint(this.#file, checkpoint)
    this.#checkpoint = checkpoint
  }

  /** Makes a shard start over. */
  reset(shardId: string): void {
    const {[shardId]: _, ...shards} = this.shards
    this.#checkpoint = {streamArn: this.streamArn, shards}
  }
}

/** `undefined` when there is no file, `'unreadable'` when it is not a checkpoint. */
async function readCheckpoint(file: string): Promise<Checkpoint | 'unreadable' | undefined> {
  try {
    const found: unknown = JSON.parse(await readFile(file, 'utf8'))
    return isCheckpoint(found) ? found : 'unreadable'
  } catch (error) {
    if (error instanceof SyntaxError) return 'unreadable'
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Atomic: a crash leaves the old file or the new one. */
async function writeCheckpoint(file: string, checkpoint: Checkpoint): Promise<void> {
  const draft = `${file}.new`
  await writeFile(draft, `${JSON.stringify(checkpoint)}\n`, {mode: 0o600})
  await rename(draft, file)
}

function isCheckpoint(found: unknown): found is Checkpoint {
  const {streamArn, shards} = (found ?? {}) as Partial<Checkpoint>
  if (typeof streamArn !== 'string' || typeof shards !== 'object' || shards === null) return false
  return Object.values(shards).every(isProgress)
}

function isProgress(found: unknown): found is ShardProgress {
  const {sequence, done} = (found ?? {}) as {sequence?: unknown; done?: unknown}
  return done === true || (typeof sequence === 'string' && /^\d+$/.test(sequence))
}
