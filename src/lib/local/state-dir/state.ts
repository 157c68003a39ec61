import {rm} from 'node:fs/promises'
import type {EngineName} from '../engines/kind.js'
import type {StateDir} from './paths.js'
import {readPrivateJson, writePrivateJson} from './private-file.js'

/** Name of the local stack, and of its table. */
export const LOCAL_STACK = 'local'

/** What is known of a stack that has been started; says nothing about whether it still runs. */
export interface StackState {
  readonly stack: typeof LOCAL_STACK
  /** Process id of the supervisor, and when that process began. */
  readonly pid: number
  readonly began: string
  /** Drawn at every start; the supervisor answers with it on its control port. */
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
  /** Taken again by the next start when it is free, so that addresses handed out before stay right. */
  readonly port: number
  /** `null`: it was asked to. */
  readonly reason: string | null
}

/** The state in a home; `undefined` when there is none or it cannot be understood. */
export async function readState(home: StateDir): Promise<StackState | undefined> {
  const value = (await readPrivateJson(home.stateFile)) as Partial<StackState> | undefined | null
  const isWhole = typeof value?.pid === 'number' && typeof value.controlPort === 'number' && value.startToken
  return isWhole ? (value as StackState) : undefined
}

/** How the last stack of a home ended; `undefined` when none has, or it was killed. */
export async function readEnd(home: StateDir): Promise<StackEnd | undefined> {
  return ((await readPrivateJson(home.endFile)) as StackEnd | undefined) ?? undefined
}

export async function writeState(home: StateDir, state: StackState): Promise<void> {
  await writePrivateJson(home.stateFile, state)
}

/** Says that a stack has ended, and removes what told that it runs; that of a later one stays. */
export async function endState(home: StateDir, state: StackState, reason: string | null): Promise<void> {
  if ((await readState(home))?.startToken !== state.startToken) return
  const end: StackEnd = {endedAt: new Date().toISOString(), port: state.port, reason}
  await writePrivateJson(home.endFile, end)
  await rm(home.stateFile, {force: true})
}
