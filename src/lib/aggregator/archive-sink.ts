import {randomUUID} from 'node:crypto'
import {mkdir, open, rename, rm} from 'node:fs/promises'
import {dirname, join} from 'node:path'

/** Where archived events go. Putting the same key again must be harmless: a retry does that. */
export interface ArchiveSink {
  put(key: string, body: Uint8Array, options: {contentType: string; contentEncoding: string}): Promise<void>
}

/** Keeps the archive in a folder. A file appears whole or not at all, and stays after a power cut. */
export function folderSink(folder: string): ArchiveSink {
  return {
    async put(key, body) {
      const path = join(folder, key)
      await mkdir(dirname(path), {recursive: true})
      const draft = `${path}.${randomUUID()}.tmp`
      try {
        const file = await open(draft, 'wx')
        await file
          .writeFile(body)
          .then(() => file.sync())
          .finally(() => file.close())
        await rename(draft, path)
      } catch (error) {
        await rm(draft, {force: true})
        throw error
      }
    },
  }
}
