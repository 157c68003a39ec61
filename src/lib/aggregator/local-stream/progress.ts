import type {ShardDescription} from '../../dynamo/transports/stream.js'
import {type Checkpoint, readCheckpoint, type ShardProgress, writeCheckpoint} from './checkpoint.js'
import {progressOfListed} from './shard-walk.js'

/** How far a poller has read the stream, here and in its file. */
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

  /** The last record taken of a shard. */
  lastOf(shardId: string): string | undefined {
    const progress = this.shards[shardId]
    return progress && 'sequence' in progress ? progress.sequence : undefined
  }

  /** Reads the file, once. One that is lost or damaged means to begin anew, which the handler does not mind. */
  async load(): Promise<'unreadable' | undefined> {
    if (this.#isLoaded) return undefined
    const found = await readCheckpoint(this.#file)
    this.#isLoaded = true
    if (found === 'unreadable') return found
    if (found) this.#checkpoint = found
    return undefined
  }

  /** What is there to read now. Another stream is begun anew, shards that are gone are forgotten. */
  follow(streamArn: string, listed: readonly ShardDescription[]): void {
    const shards = streamArn === this.streamArn ? progressOfListed(listed, this.shards) : {}
    this.#checkpoint = {streamArn, shards}
  }

  async remember(shardId: string, progress: ShardProgress): Promise<void> {
    const checkpoint = {streamArn: this.streamArn, shards: {...this.shards, [shardId]: progress}}
    await writeCheckpoint(this.#file, checkpoint)
    this.#checkpoint = checkpoint
  }

  /** Begins a shard anew. */
  forget(shardId: string): void {
    const {[shardId]: _, ...shards} = this.shards
    this.#checkpoint = {streamArn: this.streamArn, shards}
  }
}
