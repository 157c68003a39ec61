import type {TestProject} from 'vitest/node'
import {ZaelError} from '../../src/lib/core/errors.js'
import {type EngineOptions, startEngine} from '../../src/lib/local/engines/engine.js'

declare module 'vitest' {
  interface ProvidedContext {
    /** The endpoint of this run's engine; empty if none can run on this machine. */
    engineEndpoint: string
    engineName: string
  }
}

/** Starts the in-memory engine that all tests of a run share; `ZAEL_TEST_ENGINE` selects it. */
export default async function setup({provide}: TestProject): Promise<() => Promise<void>> {
  const wanted = process.env.ZAEL_TEST_ENGINE as EngineOptions['engine']
  try {
    // A JVM starts slowly on a busy machine.
    const engine = await startEngine({engine: wanted || undefined}, {readyTimeoutMs: 120_000})
    provide('engineEndpoint', engine.endpoint)
    provide('engineName', engine.name)
    return () => engine.stop()
  } catch (error) {
    // If requested by name, or on CI, a missing engine must fail instead of skipping tests.
    const isMissing = error instanceof ZaelError && error.code === 'engine.missing'
    if (!isMissing || wanted || process.env.CI) throw error
    process.stderr.write(`Tests that need a DynamoDB engine are skipped: ${error.message}\n`)
    provide('engineEndpoint', '')
    provide('engineName', '')
    return async () => {}
  }
}
