import {rm} from 'node:fs/promises'
import type {EngineName} from '../engines/kind.js'
import type {StateDir} from './paths.js'
import {readPrivateJson, writePrivateJson} from './private-file.js'

/** Name of the local stack, and of its table. */
export const LOCAL_STACK = 'local'

/** The state file of a started stack; it does not prove that the stack still runs. */
export interface StackState {
  readonly stack: typeof LOCAL_STACK
  /** Process id of the supervisor, and when that process started. */
  readonly pid: number
  readonly began: string
  /** Random, new at every start; the supervisor identifies itself with it on its control port. */
  readonly startToken: string
  readonly controlPort: number
  readonly engine: EngineName
  readonly engineVersion: string
  readonly endpoint: string
  readonly port: number
  /** `null`: everything is in memory. */
  readonly dataDir: string | null
  readonly aggregator: boolean
  /** ISO 8601, UTC. */
  readonly startedAt: string
  /** Version of zael that started it. */
  readonly version: string
}

/** How a stack ended. */
export interface StackEnd {
  /** ISO 8601, UTC. */
  readonly endedAt: string
  /** Reused by the next start if it is free, so that endpoints handed out before stay valid. */
  readonly port: number
  /** `null`: it was stopped on request. */
  readonly reason: string | null
}

/** The stored state; `undefined` when there is none or it is incomplete. */
export async function readState(stateDir: StateDir): Promise<StackState | undefined> {
  const value = (await readPrivateJson(stateDir.stateFile)) as Partial<StackState> | undefined | null
  const isComplete = typeof value?.pid === 'number' && typeof value.controlPort === 'number' && value.startToken
  return isComplete ? (value as StackState) : undefined
}

/** How the last stack ended; `undefined` when none has, or it was killed. */
export async function readEnd(stateDir: StateDir): Promise<StackEnd | undefined> {
  return ((await readPrivateJson(stateDir.endFile)) as StackEnd | undefined) ?? undefined
}

export async function writeState(stateDir: StateDir, state: StackState): Promise<void> {
  await writePrivateJson(stateDir.stateFile, state)
}

/** Records the end of a stack and removes its state; the state of a later stack is left alone. */
export async function endState(stateDir: StateDir, state: StackState, reason: string | null): Promise<void> {
  if ((await readState(stateDir))?.startToken !== state.startToken) return
  const end: StackEnd = {endedAt: new Date().toISOString(), port: state.port, reason}
  await writePrivateJson(stateDir.endFile, end)
  await rm(stateDir.stateFile, {force: true})
}
