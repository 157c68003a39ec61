import {spawn} from 'node:child_process'
import {once} from 'node:events'
import {Writable} from 'node:stream'

/** How a process ended: its exit code, or the signal that killed it. */
export interface ProcessExit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/** A child process that never outlives this one. */
export interface OwnedProcess {
  readonly pid: number
  /** Resolves when the process and its watcher are gone; never rejects. */
  readonly exited: Promise<ProcessExit>
  /** The last lines the process wrote to stderr. */
  stderrTail(): string
  /** Asks it to end, forces it after the grace time, and resolves once it is gone. */
  stop(graceMs: number): Promise<void>
}

const STDERR_KEPT_CHARS = 4000

// Node holds one end of a pipe, a background watcher reads the other as fd 3. The kernel closes Node's end however Node
// dies, SIGKILL included: end of file makes the watcher kill the program. A line means that the program has ended and been
// reaped, so that the watcher goes away without hitting a stranger who got the same pid. `exec` keeps the pid ($$) that
// Node knows. The watcher gives up stdout and stderr, else Node would wait for it to close them; the program gives up fd 3,
// which is not its business.
const TETHER = '(if read -r _ <&3; then exit 0; fi; kill -KILL $$) >/dev/null 2>&1 & exec 3<&-; exec "$@"'

/** Starts a program (first element) with its arguments; it dies with this process. */
export async function spawnOwned(command: readonly string[]): Promise<OwnedProcess> {
  const [program = '', ...args] = command
  // Windows has no sh. Standard input, which ends with us too, is the only tether there: the program has to watch it.
  const child =
    process.platform === 'win32'
      ? spawn(program, args, {stdio: ['pipe', 'ignore', 'pipe'], windowsHide: true})
      : spawn('sh', ['-c', TETHER, 'sh', ...command], {
          stdio: ['pipe', 'ignore', 'pipe', 'pipe'],
          // In a session of its own, Ctrl-C reaches only us, and we decide what to stop first.
          detached: true,
        })

  let stderr = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr = (stderr + text).slice(-STDERR_KEPT_CHARS)
  })
  const tether = child.stdio[3]
  // A pipe breaks when the other side is killed first; there is nothing to do about it.
  for (const pipe of [child.stdin, tether]) pipe?.on('error', () => {})
  child.once('exit', () => {
    if (tether instanceof Writable) tether.end('\n')
  })

  // 'close' comes after 'exit', when every pipe is closed too: stderr is complete and the watcher is gone.
  const exited = new Promise<ProcessExit>(resolve => {
    child.once('close', (code, signal) => resolve({code, signal}))
  })
  await once(child, 'spawn')

  let stopping: Promise<void> | undefined
  const end = async (graceMs: number) => {
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
      stopping ??= end(graceMs)
      return stopping
    },
  }
}
