import {afterAll, expect, vi} from 'vitest'

// Test files share a process in sequence: leftovers of one would change the next.
const LISTENED = ['SIGINT', 'SIGTERM', 'exit', 'uncaughtException', 'unhandledRejection'] as const

const environment = {...process.env}
const before = traces()

afterAll(() => {
  vi.unstubAllEnvs()
  expect(traces(), 'what this file leaves behind').toEqual(before)
})

function traces() {
  const names = new Set([...Object.keys(environment), ...Object.keys(process.env)])
  return {
    // Names only: values may be secrets.
    changedVariables: [...names].filter(name => environment[name] !== process.env[name]),
    folder: process.cwd(),
    exitCode: process.exitCode,
    hasFakeTimers: vi.isFakeTimers(),
    hasOwnStdout: Object.hasOwn(process.stdout, 'write'),
    // Ink adds one of each with its first view, and keeps it.
    listeners: Object.fromEntries(LISTENED.map(event => [event, Math.max(1, process.listenerCount(event))])),
  }
}
