import {homedir} from 'node:os'
import {join, resolve} from 'node:path'

/** Where the local stack of one user keeps its things; another home is another stack. */
export interface StateDir {
  readonly folder: string
  /** Who runs; there only while a supervisor runs, or after one was killed. */
  readonly stateFile: string
  /** How the last one ended. */
  readonly endFile: string
  /** Held while somebody starts or stops the stack. */
  readonly lockFile: string
  readonly logFile: string
  /** The engine's data, unless another folder is named. */
  readonly dataDir: string
  /** What belongs to a stack in memory and is worthless after it. */
  readonly volatileDir: string
}

type Environment = Readonly<Record<string, string | undefined>>

/** The home below zael's data folder: ZAEL_DATA_DIR, else that of the XDG rules. */
export function findStateDir(env: Environment = process.env): StateDir {
  return stateDirAt(join(dataFolder(env), 'local'))
}

/** The home in a folder that is known. */
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
  // The XDG rules say that a relative path counts as not set.
  const xdg = env.XDG_DATA_HOME?.startsWith('/') ? env.XDG_DATA_HOME : undefined
  const windows = process.platform === 'win32' ? env.LOCALAPPDATA : undefined
  return join(xdg ?? windows ?? join(env.HOME || homedir(), '.local', 'share'), 'zael')
}
