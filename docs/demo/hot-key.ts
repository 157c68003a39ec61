import {type NamespaceRepository, RateLimiter} from '../../src/lib/index.js'

export interface HotKeyOptions {
  readonly stack: string
  readonly endpoint: string
  readonly namespace: NamespaceRepository
  readonly entity: string
  readonly resource: string
  /** Number of limiters; each has its own caches and connections, like a separate process. */
  readonly processes: number
  readonly forMs: number
}

export interface HotKeyResult {
  readonly admitted: number
  readonly seconds: number
  readonly shards: number
}

/** Sends requests to one bucket as fast as this machine can, until the bucket is split or the time is over. */
export async function pressHotKey(options: HotKeyOptions): Promise<HotKeyResult> {
  const {stack, endpoint, namespace, entity, resource, processes, forMs} = options
  // All of them and the engine share this machine, so a decision may take longer than the five seconds by default.
  const settings = {stack, endpoint, onUnavailable: 'block', timeoutMs: 30_000} as const
  const limiters = Array.from({length: processes}, () => new RateLimiter(settings))
  const startMs = performance.now()
  let isOver = false
  let admitted = 0
  const press = async (limiter: RateLimiter): Promise<void> => {
    while (!isOver) {
      const {admitted: isAdmitted} = await limiter.tryAcquire({entity, resource, consume: {'requests-ps': 1}})
      if (isAdmitted) admitted++
    }
  }
  const shards = async () => (await namespace.buckets.find(entity, resource))?.shards.length ?? 0
  const watch = async (): Promise<void> => {
    while ((await shards()) < 2 && performance.now() - startMs < forMs) {
      await new Promise(resolve => setTimeout(resolve, 250))
    }
    isOver = true
  }
  try {
    await Promise.all([watch(), ...limiters.map(press)])
    const seconds = (performance.now() - startMs) / 1000
    await Promise.all(limiters.map(limiter => limiter.close()))
    return {admitted, seconds, shards: await shards()}
  } finally {
    isOver = true
    await Promise.all(limiters.map(limiter => limiter.close()))
  }
}
