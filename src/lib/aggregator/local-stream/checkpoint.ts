import {readFile, rename, writeFile} from 'node:fs/promises'

/** How far a shard has been read: up to and including a record, or all of it. */
export type ShardProgress = {readonly sequence: string} | {readonly done: true}

/** How far a stream has been read; a shard that is missing has not been started. */
export interface Checkpoint {
  readonly streamArn: string
  readonly shards: Readonly<Record<string, ShardProgress>>
}

/** What the file says; `undefined` when there is none, `'unreadable'` when it is no checkpoint. */
export async function readCheckpoint(file: string): Promise<Checkpoint | 'unreadable' | undefined> {
  try {
    const found: unknown = JSON.parse(await readFile(file, 'utf8'))
    return isCheckpoint(found) ? found : 'unreadable'
  } catch (error) {
    if (error instanceof SyntaxError) return 'unreadable'
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Replaces the file in one step: whoever is killed in between leaves the old one or the new one. */
export async function writeCheckpoint(file: string, checkpoint: Checkpoint): Promise<void> {
  const fresh = `${file}.new`
  await writeFile(fresh, `${JSON.stringify(checkpoint)}\n`, {mode: 0o600})
  await rename(fresh, file)
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
