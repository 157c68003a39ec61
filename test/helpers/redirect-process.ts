import {Readable} from 'node:stream'

/** Replacements for parts of this process. */
export interface Replacement {
  readonly argv: string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  readonly stdin: string
  /** Width of a terminal; `undefined` for a pipe. */
  readonly columns: number | undefined
}

/** The replaced process, until it is restored. */
export interface RedirectedProcess {
  /** The output so far. */
  readonly output: {readonly stdout: string; readonly stderr: string}
  /** Settles when something is written. */
  written(): Promise<void>
  readonly restore: () => void
}

/** Gives this process other arguments, environment, folder and streams, and no exit code. */
export function redirectProcess({argv, env, cwd, stdin, columns}: Replacement): RedirectedProcess {
  const before = {argv: process.argv, env: {...process.env}, cwd: process.cwd(), exitCode: process.exitCode}
  let wake = () => {}
  const captured = {
    stdout: captureStream('stdout', columns, onWrite),
    stderr: captureStream('stderr', columns, onWrite),
  }
  const restoreStdin = replace(process, 'stdin', Readable.from(stdin === '' ? [] : [Buffer.from(stdin)]))
  function onWrite() {
    wake()
  }
  process.argv = argv
  replaceEnvironment(env)
  if (cwd !== before.cwd) process.chdir(cwd)
  process.exitCode = undefined
  return {
    output: {
      get stdout() {
        return captured.stdout.text()
      },
      get stderr() {
        return captured.stderr.text()
      },
    },
    written: () =>
      new Promise(resolve => {
        wake = resolve
      }),
    restore: () => {
      for (const {restore} of Object.values(captured)) restore()
      restoreStdin()
      process.argv = before.argv
      replaceEnvironment(before.env)
      if (process.cwd() !== before.cwd) process.chdir(before.cwd)
      process.exitCode = before.exitCode
    },
  }
}

/** In place, so that children and the C library see it too, such as time zone and home. */
function replaceEnvironment(env: Readonly<Record<string, string | undefined>>): void {
  for (const name of Object.keys(process.env)) if (!(name in env)) delete process.env[name]
  for (const [name, value] of Object.entries(env)) if (process.env[name] !== value) process.env[name] = value
}

/** Captures output; `console` uses the same stream, so the method is replaced, not the stream. */
function captureStream(
  name: 'stdout' | 'stderr',
  columns: number | undefined,
  onWrite: () => void,
): {text: () => string; restore: () => void} {
  const stream = process[name]
  const chunks: Buffer[] = []
  const write = (chunk: string | Uint8Array, ...rest: unknown[]): boolean => {
    const encoding = typeof rest[0] === 'string' ? (rest[0] as BufferEncoding) : 'utf8'
    chunks.push(typeof chunk === 'string' ? Buffer.from(chunk, encoding) : Buffer.from(chunk))
    const done = rest.at(-1)
    if (typeof done === 'function') queueMicrotask(() => done())
    onWrite()
    return true
  }
  const restorers = [
    replace(stream, 'write', write),
    replace(stream, 'isTTY', columns !== undefined),
    replace(stream, 'columns', columns),
  ]
  const restore = () => {
    for (const each of restorers) each()
  }
  return {text: () => Buffer.concat(chunks).toString(), restore}
}

function replace(target: object, name: string, value: unknown): () => void {
  const before = Object.getOwnPropertyDescriptor(target, name)
  Object.defineProperty(target, name, {value, configurable: true, writable: true, enumerable: true})
  return () => {
    if (before) Object.defineProperty(target, name, before)
    else delete (target as Record<string, unknown>)[name]
  }
}
