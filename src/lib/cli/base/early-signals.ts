import {writeSync} from 'node:fs'

// Loaded by bin/run.js before everything else: it may import nothing that takes time.

const EXIT_CODES = {SIGINT: 130, SIGTERM: 143} as const

function end(signal: NodeJS.Signals): void {
  try {
    writeSync(process.stderr.fd, 'Error: Interrupted: nothing was changed.\n')
  } finally {
    process.exit(EXIT_CODES[signal as keyof typeof EXIT_CODES])
  }
}

/** Handles Ctrl-C and SIGTERM until a command begins; without that they would end the process without a word. */
export function handleEarlySignals(): void {
  for (const signal of Object.keys(EXIT_CODES)) process.on(signal, end)
}

/** From here on a command may change something, and handles signals itself if it needs to. */
export function leaveSignalsToCommand(): void {
  for (const signal of Object.keys(EXIT_CODES)) process.off(signal, end)
}
