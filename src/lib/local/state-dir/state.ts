import {rm} from 'node:fs/promises'
import type {z} from 'zod'
import type {StateDir} from './paths.js'
import {checkPrivateFolder, ignoreDamage, readPrivateJson, writePrivateJson} from './private-file.js'
import type {stackEndSchema, stackStateSchema} from './schemas.js'

/** Also the name of its table. */
export const LOCAL_STACK = 'local'

/** Does not prove that the stack still runs. */
export type StackState = Readonly<z.infer<typeof stackStateSchema>>

export type StackEnd = Readonly<z.infer<typeof stackEndSchema>>

/** Throws `DamagedFile` when the file cannot be used. */
export async function readState(stateDir: StateDir): Promise<StackState | undefined> {
  await checkPrivateFolder(stateDir.folder)
  return readPrivateJson(stateDir.stateFile, schemas => schemas.stackStateSchema)
}

/** `undefined`: no stack has ended, it was killed, or the file is damaged. */
export async function readEnd(stateDir: StateDir): Promise<StackEnd | undefined> {
  return readPrivateJson(stateDir.endFile, schemas => schemas.stackEndSchema).catch(ignoreDamage)
}

export async function writeState(stateDir: StateDir, state: StackState): Promise<void> {
  await writePrivateJson(stateDir.stateFile, state)
}

/** Skips the state of a later stack. */
export async function endState(stateDir: StateDir, state: StackState, reason: string | null): Promise<void> {
  if ((await readState(stateDir).catch(ignoreDamage))?.startToken !== state.startToken) return
  const end: StackEnd = {endedAt: new Date().toISOString(), port: state.port, reason}
  await writePrivateJson(stateDir.endFile, end)
  await rm(stateDir.stateFile, {force: true})
}
