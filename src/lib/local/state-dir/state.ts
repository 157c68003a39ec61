import {rm} from 'node:fs/promises'
import type {z} from 'zod'
import type {StateDir} from './paths.js'
import {checkPrivateFolder, ignoreDamage, readPrivateJson, writePrivateJson} from './private-file.js'
import type {stackEndSchema, stackStateSchema} from './schemas.js'

/** Name of the local stack, and of its table. */
export const LOCAL_STACK = 'local'

/** The state file of a started stack; it does not prove that the stack still runs. */
export type StackState = Readonly<z.infer<typeof stackStateSchema>>

export type StackEnd = Readonly<z.infer<typeof stackEndSchema>>

/** The stored state; `undefined` when there is none. Throws `DamagedFile` when it cannot be used. */
export async function readState(stateDir: StateDir): Promise<StackState | undefined> {
  await checkPrivateFolder(stateDir.folder)
  return readPrivateJson(stateDir.stateFile, schemas => schemas.stackStateSchema)
}

/** How the last stack ended; `undefined` when none has, it was killed, or its file is damaged: it is a convenience only. */
export async function readEnd(stateDir: StateDir): Promise<StackEnd | undefined> {
  return readPrivateJson(stateDir.endFile, schemas => schemas.stackEndSchema).catch(ignoreDamage)
}

export async function writeState(stateDir: StateDir, state: StackState): Promise<void> {
  await writePrivateJson(stateDir.stateFile, state)
}

/** Records the end of a stack and removes its state; the state of a later stack is left alone. */
export async function endState(stateDir: StateDir, state: StackState, reason: string | null): Promise<void> {
  if ((await readState(stateDir).catch(ignoreDamage))?.startToken !== state.startToken) return
  const end: StackEnd = {endedAt: new Date().toISOString(), port: state.port, reason}
  await writePrivateJson(stateDir.endFile, end)
  await rm(stateDir.stateFile, {force: true})
}
