import {spawn} from 'node:child_process'
import {once} from 'node:events'
import {Writable} from 'node:stream'

export interface ProcessExit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/** A child process that never outlives this process. */
export interface OwnedProcess {
  readonly pid: number
  /** Resolves when the process and its watcher have exited; never rejects. */
  readonly exited: Promise<ProcessExit>
  stderrTail(): string
  /** Sends SIGTERM, then SIGKILL after the grace time; resolves once the process has exited. */
  stop(graceMs: number): Promise<void>
}

const STDERR_KEPT_CHARS = 4000

// Node holds one end of a pipe, a background watcher reads the other end as fd 3. At end of file, however Node died, it
// kills the program. A line means that the program has exited: the watcher kills nothing, as the pid may be reused.
// `exec` keeps the pid ($$) that Node knows. The watcher closes stdout and stderr, or Node would wait for it to do so.
const RUN_WITH_WATCHER = '(if read -r _ <&3; then exit 0; fi; kill -KILL $$) >/dev/null 2>&1 & exec 3<&-; exec "$@"'

export async function spawnOwned(command: readonly string[]): Promise<OwnedProcess> {
  const [program = '', ...args] = command
  // Windows has no sh. There the program itself must exit when its standard input closes, as it does when Node dies.
  const child =
    process.platform === 'win32'
      ? spawn(program, args, {stdio: ['pipe', 'ignore', 'pipe'], windowsHide: true})
      : spawn('sh', ['-c', RUN_WITH_WATCHER, 'sh', ...command], {
          stdio: ['pipe', 'ignore', 'pipe', 'pipe'],
          // In its own session, it does not get Ctrl-C: this process decides in which order things stop.
          detached: true,
        })

  let stderr = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr = (stderr + text).slice(-STDERR_KEPT_CHARS)
  })
  const watcherPipe = child.stdio[3]
  // A pipe breaks when the process at its other end is killed first. Ignore that.
  for (const pipe of [child.stdin, watcherPipe]) pipe?.on('error', () => {})
  child.once('exit', () => {
    if (watcherPipe instanceof Writable) watcherPipe.end('\n')
  })

  // 'close' follows 'exit' when all pipes are closed: stderr is complete and the watcher has exited.
  const exited = new Promise<ProcessExit>(resolve => {
    child.once('close', (code, signal) => resolve({code, signal}))
  })
  await once(child, 'spawn')

  let stopping: Promise<void> | undefined
  const terminate = async (graceMs: number) => {
    child.kill('SIGTERM')
    const force = setTimeout(() => child.kill('SIGKILL'), graceMs)
    await exited
    clearTimeout(force)
  }
  return {
    pid: child.pid as number,
    exited,
    stderrTail: () => stderr.trim(),
    stop: graceMs => {
      stopping ??= terminate(graceMs)
      return stopping
    },
  }
}
