import type {ExitCode} from '../state/screen-state.js'

export function onExitSignal(end: (exitCode: ExitCode) => void): () => void {
  const onInterrupt = () => end(130)
  const onTerminate = () => end(143)
  process.on('SIGINT', onInterrupt)
  process.on('SIGTERM', onTerminate)
  return () => {
    process.off('SIGINT', onInterrupt)
    process.off('SIGTERM', onTerminate)
  }
}

/** Stops the process; returns when it continues. Does nothing on Windows, which has no job control. */
export function stopProcess(): void {
  if (process.platform === 'win32') return
  // The whole process group, as the terminal would do: the shell waits for the process that started this one.
  process.kill(0, 'SIGTSTP')
  // The terminal does not report changes of its size to a stopped process.
  process.kill(process.pid, 'SIGWINCH')
}
