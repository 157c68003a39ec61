import {resolve} from 'node:path'
import {ZaelError} from '../core/errors.js'
import {cleanUpAfter, lockStack, stopStack} from './down.js'
import type {EngineName} from './engines/kind.js'
import {findStack} from './find.js'
import {checkNoForeignFiles, wipeData} from './state-dir/data-dir.js'
import {makePrivateFolder} from './state-dir/private-file.js'
import {readEnd, type StackState, type StateDir} from './state-dir/state.js'
import {startSupervisor} from './supervisor/start.js'

/** Absent options keep the setting of a running stack, or get their default. */
interface UpOptions {
  readonly engine?: EngineName | undefined
  readonly port?: number | undefined
  readonly dataDir?: string | undefined
  readonly inMemory: boolean
  readonly reset: boolean
  readonly aggregator: boolean
  readonly resourceIndex?: 'KEYS_ONLY' | 'ALL' | undefined
  readonly version: string
}

export type UpResult = Readonly<Awaited<ReturnType<typeof bringUp>>>

/** Concurrent calls get the same stack. `recovered`: the previous one did not respond and was cleaned up. */
export async function bringUp(stateDir: StateDir, options: UpOptions) {
  await makePrivateFolder(stateDir.folder)
  await using _lock = await lockStack(stateDir)
  const found = await findStack(stateDir)
  if (found.kind === 'running') {
    checkSameSettings(found.state, options)
    if (!options.reset) return {state: found.state, started: false, recovered: false}
  }
  const dataDir = options.inMemory ? null : dataDirFor(stateDir, options)
  if (options.reset && dataDir !== null) await checkNoForeignFiles(dataDir)
  const recovered = await cleanUpAfter(stateDir, found)
  if (found.kind === 'running') await stopStack(stateDir, found.state)
  if (options.reset && dataDir !== null) await wipeData(dataDir)

  const {engine, port, aggregator, resourceIndex, version} = options
  const preferredPort = 'state' in found ? found.state.port : (await readEnd(stateDir))?.port
  const state = await startSupervisor({
    stateDir: stateDir.folder,
    ...{dataDir, engine, port, preferredPort, aggregator, resourceIndex, version},
  })
  return {state, started: true, recovered}
}

export function dataDirFor(stateDir: StateDir, {dataDir}: Pick<UpOptions, 'dataDir'>): string {
  return dataDir === undefined ? stateDir.dataDir : resolve(dataDir)
}

/** As in the flag --resource-index. */
const indexText = (index: StackState['resourceIndex']): string => index?.toLowerCase().replace('_', '-') ?? 'unknown'

function checkSameSettings(state: StackState, options: UpOptions): void {
  const {engine, port, dataDir, inMemory, aggregator, resourceIndex} = options
  const differences = [
    ...(engine !== undefined && engine !== state.engine ? [`engine ${state.engine}, not ${engine}`] : []),
    ...(port !== undefined && port !== state.port ? [`on port ${state.port}, not ${port}`] : []),
    ...(dataDir !== undefined && resolve(dataDir) !== state.dataDir
      ? [`${dataLocation(state)}, not in ${resolve(dataDir)}`]
      : []),
    ...(inMemory && state.dataDir !== null ? [`${dataLocation(state)}, not in memory`] : []),
    ...(resourceIndex !== undefined && resourceIndex !== state.resourceIndex
      ? [`resource index ${indexText(state.resourceIndex)}, not ${indexText(resourceIndex)}`]
      : []),
    ...(!aggregator && state.aggregator ? ['with the aggregator, not without'] : []),
  ]
  if (differences.length === 0) return
  const message = `The local stack already runs with other settings: ${differences.join('; ')}`
  throw new ZaelError('conflict', 'local.running-otherwise', message, {
    hint: 'Omit these flags, or stop the stack first: zael local down',
    details: {differences, endpoint: state.endpoint},
  })
}

function dataLocation({dataDir}: StackState): string {
  return dataDir === null ? 'data in memory' : `data in ${dataDir}`
}
