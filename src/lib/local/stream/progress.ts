import {readFile, rename, writeFile} from 'node:fs/promises'
import * as z from 'zod/mini'
import type {ShardDescription} from '../../dynamo/transports/stream.js'

/** `sequence`: read up to and including this record. `done`: read to the end. */
const progressSchema = z.union([
  z.object({done: z.literal(true)}),
  z.object({sequence: z.string().check(z.regex(/^\d{1,40}$/))}),
])
export type ShardProgress = Readonly<z.infer<typeof progressSchema>>

/** A missing shard has not been started. Keys of newer versions are ignored. */
const checkpointSchema = z.object({streamArn: z.string(), shards: z.record(z.string(), progressSchema)})
export type Checkpoint = Readonly<z.infer<typeof checkpointSchema>>

type Unreadable = {readonly problem: string}

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

  lastOf(shardId: string): string | undefined {
    const progress = this.shards[shardId]
    return progress && 'sequence' in progress ? progress.sequence : undefined
  }

  /** Reads the file once. If it is lost or damaged, reading starts over: the handler is idempotent. */
  async load(): Promise<Unreadable | undefined> {
    if (this.#isLoaded) return undefined
    const found = await readCheckpoint(this.#file)
    this.#isLoaded = true
    if (found && 'problem' in found) return found
    if (found) this.#checkpoint = found
    return undefined
  }

  follow(streamArn: string, listed: readonly ShardDescription[]): void {
    const ids = new Set(listed.map(shard => shard.ShardId))
    const kept = Object.entries(this.shards).filter(([id]) => ids.has(id))
    this.#checkpoint = {streamArn, shards: streamArn === this.streamArn ? Object.fromEntries(kept) : {}}
  }

  /** Unfinished shards without an unfinished parent: an item's changes move from a closed shard to its children. */
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
    // Atomic: a crash leaves the old file or the new one.
    const draft = `${this.#file}.new`
    await writeFile(draft, `${JSON.stringify(checkpoint)}\n`, {mode: 0o600})
    await rename(draft, this.#file)
    this.#checkpoint = checkpoint
  }

  reset(shardId: string): void {
    const {[shardId]: _, ...shards} = this.shards
    this.#checkpoint = {streamArn: this.streamArn, shards}
  }
}

async function readCheckpoint(file: string): Promise<Checkpoint | Unreadable | undefined> {
  try {
    const {data, error} = checkpointSchema.safeParse(JSON.parse(await readFile(file, 'utf8')))
    return data ?? {problem: `"${error.issues[0]?.path.join('.') ?? ''}" is missing or wrong`}
  } catch (error) {
    if (error instanceof SyntaxError) return {problem: 'it is not JSON'}
    const {code} = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    if (code === 'EISDIR') throw new Error(`the checkpoint ${file} is a folder, not a file`)
    throw error
  }
}
