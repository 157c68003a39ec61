import {writeSync} from 'node:fs'

// bin/run.js loads this file first: import nothing slow.

const EXIT_CODES = {SIGINT: 130, SIGTERM: 143} as const

function end(signal: NodeJS.Signals): void {
  try {
    writeSync(process.stderr.fd, 'Error: Interrupted: nothing was changed.\n')
  } finally {
    process.exit(EXIT_CODES[signal as keyof typeof EXIT_CODES])
  }
}

/** Until a command begins. Without this, Ctrl-C and SIGTERM would end the process silently. */
export function handleEarlySignals(): void {
  for (const signal of Object.keys(EXIT_CODES)) process.on(signal, end)
}

export function leaveSignalsToCommand(): void {
  for (const signal of Object.keys(EXIT_CODES)) process.off(signal, end)
}
