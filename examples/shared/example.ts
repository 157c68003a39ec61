import {type NamespaceRepository, RateLimiter, Repository} from 'zael'
import {chapter, paint, say} from '../../docs/demo/screen.js'
import {DemoStack} from '../../docs/demo/stack.js'
import {type ModelServer, type ModelServerOptions, startModelServer} from '../model-server/server.js'
import type {HttpServer} from './listen.js'

/** The parts of every example: a limiter on a local stack, and a provider of models. */
export interface Parts {
  readonly limiter: RateLimiter
  readonly namespace: NamespaceRepository
  readonly model: ModelServer
}

export interface Example {
  readonly title: string
  /** The provider's own limits. */
  readonly provider: ModelServerOptions
  setLimits(namespace: NamespaceRepository): Promise<void>
  start(parts: Parts): Promise<HttpServer>
  /** Sends requests to the server and prints the responses. */
  story(url: string, parts: Parts): Promise<void>
  /** Commands to try with `--serve`. */
  commands(url: string): readonly string[]
}

/** Runs an example on its own local stack. Deletes the stack at the end or, with `--serve`, after Ctrl-C. */
export async function runExample(example: Example): Promise<void> {
  // Otherwise the SDK prints seven lines about Node 20.
  process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true'
  say(paint('bold', example.title))
  const stack = await DemoStack.inOwnFolder()
  const closers = [() => stack.remove(), () => stack.show('local', 'down', '--purge', '--yes')]
  let leaving: Promise<void> | undefined
  const leave = (): Promise<void> => {
    leaving ??= closeAll(closers)
    return leaving
  }
  onSignal(leave)
  try {
    const parts = await open(example, stack, closers)
    const {url, close} = await example.start(parts)
    closers.push(close)
    await example.story(url, parts)
    if (process.argv.includes('--serve')) await serve(example, url, stack)
  } finally {
    chapter('Cleanup: stop everything and delete its data')
    await leave()
  }
}

async function open({provider, setLimits}: Example, stack: DemoStack, closers: Closer[]): Promise<Parts> {
  chapter('A local stack, limits, and a provider of models on this machine')
  await stack.show('local', 'up')
  const {endpoint} = (await stack.ask('local', 'status')) as {endpoint: string}
  const repository = new Repository({stack: 'local', endpoint, principal: 'example'})
  closers.push(() => repository.close())
  const limiter = new RateLimiter({stack: 'local', endpoint})
  closers.push(() => limiter.close())
  const model = await startModelServer(provider)
  closers.push(() => model.close())
  const namespace = await repository.namespace()
  await setLimits(namespace)
  return {limiter, namespace, model}
}

async function serve({commands}: Example, url: string, stack: DemoStack): Promise<void> {
  chapter(`Serving on ${url} until Ctrl-C`)
  for (const command of [...commands(url), `${stack.environment} node bin/run.js watch --stack local`]) {
    say(`   ${paint('cyan', `$ ${command}`)}`)
  }
  // Wait until a signal ends the process.
  await new Promise(() => {})
}

type Closer = () => Promise<void>

/** Closes in reverse order. If one part fails to close, the others are still closed. */
async function closeAll(closers: readonly Closer[]): Promise<void> {
  for (const close of closers.toReversed()) {
    await close().catch(error => {
      process.exitCode = 1
      console.error(error)
    })
  }
}

function onSignal(leave: Closer): void {
  for (const [signal, exitCode] of [['SIGINT', 130] as const, ['SIGTERM', 143] as const, ['SIGHUP', 129] as const]) {
    process.once(signal, () => {
      // Writes fail if the terminal is closed.
      for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
      void leave().finally(() => process.exit(exitCode))
    })
  }
}
