import {homedir} from 'node:os'
import {join, resolve} from 'node:path'

/** Each state directory holds one local stack. */
export interface StateDir {
  readonly folder: string
  /** Exists only while a supervisor runs, or after one was killed. */
  readonly stateFile: string
  readonly endFile: string
  /** Held by a command that starts or stops the stack. */
  readonly lockFile: string
  readonly logFile: string
  readonly dataDir: string
  /** Files of a stack in memory; worthless after it has ended. */
  readonly volatileDir: string
}

type Environment = Readonly<Record<string, string | undefined>>

/** Below ZAEL_DATA_DIR, else below the XDG data directory. */
export function findStateDir(env: Environment = process.env): StateDir {
  return stateDirAt(join(dataFolder(env), 'local'))
}

export function stateDirAt(folder: string): StateDir {
  return {
    folder,
    stateFile: join(folder, 'state.json'),
    endFile: join(folder, 'ended.json'),
    lockFile: join(folder, 'lock'),
    logFile: join(folder, 'stack.log'),
    dataDir: join(folder, 'data'),
    volatileDir: join(folder, 'volatile'),
  }
}

function dataFolder(env: Environment): string {
  if (env.ZAEL_DATA_DIR) return resolve(env.ZAEL_DATA_DIR)
  // By the XDG specification a relative path counts as not set.
  const xdg = env.XDG_DATA_HOME?.startsWith('/') ? env.XDG_DATA_HOME : undefined
  const windows = process.platform === 'win32' ? env.LOCALAPPDATA : undefined
  return join(xdg ?? windows ?? join(env.HOME || homedir(), '.local', 'share'), 'zael')
}
