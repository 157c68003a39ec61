import {resolve} from 'node:path'
import {ZaelError} from '../core/errors.js'
import {cleanUpAfter, lockStack, stopStack} from './down.js'
import type {EngineName} from './engines/kind.js'
import {findStack} from './find.js'
import {checkNoForeignFiles, wipeData} from './state-dir/data-dir.js'
import type {StateDir} from './state-dir/paths.js'
import {makePrivateFolder} from './state-dir/private-file.js'
import {readEnd, type StackState} from './state-dir/state.js'
import {startSupervisor} from './supervisor/start.js'

/** What was asked for; what is absent is left to the stack, also to one that runs already. */
export interface UpOptions {
  readonly engine?: EngineName | undefined
  readonly port?: number | undefined
  readonly dataDir?: string | undefined
  readonly inMemory: boolean
  /** Stop what runs and delete its data first. */
  readonly reset: boolean
  readonly aggregator: boolean
  /** Version of zael. */
  readonly version: string
}

export interface UpResult {
  readonly state: StackState
  /** False: it was running before. */
  readonly started: boolean
  /** The one before had been killed, or did not answer any more. */
  readonly mended: boolean
}

/** Starts the stack of a home, or finds it running; who comes at the same moment gets the same stack. */
export async function bringUp(home: StateDir, options: UpOptions): Promise<UpResult> {
  await makePrivateFolder(home.folder)
  await using _lock = await lockStack(home)
  const found = await findStack(home)
  if (found.kind === 'running') {
    checkSame(found.state, options)
    if (!options.reset) return {state: found.state, started: false, mended: false}
  }
  const dataDir = options.inMemory ? null : dataDirFor(home, options)
  if (options.reset && dataDir !== null) await checkNoForeignFiles(dataDir)
  const mended = await cleanUpAfter(home, found)
  if (found.kind === 'running') await stopStack(home, found.state)
  if (options.reset && dataDir !== null) await wipeData(dataDir)

  const {engine, port, aggregator, version} = options
  const preferredPort = found.kind === 'none' ? (await readEnd(home))?.port : found.state.port
  const state = await startSupervisor({
    home: home.folder,
    dataDir,
    aggregator,
    version,
    ...(engine === undefined ? {} : {engine}),
    ...(port === undefined ? {} : {port}),
    ...(preferredPort === undefined ? {} : {preferredPort}),
  })
  return {state, started: true, mended}
}

/** The folder that a stack with these options keeps its data in, unless it is in memory. */
export function dataDirFor(home: StateDir, {dataDir}: Pick<UpOptions, 'dataDir'>): string {
  return dataDir === undefined ? home.dataDir : resolve(dataDir)
}

/** Throws when what was asked for differs from what runs. */
function checkSame(state: StackState, options: UpOptions): void {
  const {engine, port, dataDir, inMemory, aggregator} = options
  const differences = [
    ...(engine !== undefined && engine !== state.engine ? [`engine ${state.engine}, not ${engine}`] : []),
    ...(port !== undefined && port !== state.port ? [`on port ${state.port}, not ${port}`] : []),
    ...(dataDir !== undefined && resolve(dataDir) !== state.dataDir
      ? [`${keeps(state)}, not in ${resolve(dataDir)}`]
      : []),
    ...(inMemory && state.dataDir !== null ? [`${keeps(state)}, not in memory`] : []),
    ...(!aggregator && state.aggregator ? ['with the aggregator, not without'] : []),
  ]
  if (differences.length === 0) return
  throw new ZaelError(
    'conflict',
    'local.running-otherwise',
    `the local stack runs otherwise: ${differences.join('; ')}`,
    {
      hint: 'Use it as it is (`zael local status`), or stop it first (`zael local down`).',
      details: {differences, endpoint: state.endpoint},
    },
  )
}

function keeps({dataDir}: StackState): string {
  return dataDir === null ? 'data in memory' : `data in ${dataDir}`
}
