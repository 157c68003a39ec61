import type {TestProject} from 'vitest/node'
import {ZaelError} from '../../src/lib/core/errors.js'
import {type EngineOptions, startEngine} from '../../src/lib/local/engines/engine.js'

declare module 'vitest' {
  interface ProvidedContext {
    /** Where the engine of this test run listens; empty when none can run on this machine. */
    engineEndpoint: string
    engineName: string
  }
}

/** Starts the one in-memory engine that all tests of a run share; `ZAEL_TEST_ENGINE` chooses which. */
export default async function setup({provide}: TestProject): Promise<() => Promise<void>> {
  const wanted = process.env.ZAEL_TEST_ENGINE as EngineOptions['engine']
  try {
    // A JVM on a busy machine takes its time.
    const engine = await startEngine({engine: wanted || undefined}, {readyTimeoutMs: 120_000})
    provide('engineEndpoint', engine.endpoint)
    provide('engineName', engine.name)
    return () => engine.stop()
  } catch (error) {
    // Asked for by name, or on CI, a missing engine must not pass as skipped tests.
    const isMissing = error instanceof ZaelError && error.code === 'engine.missing'
    if (!isMissing || wanted || process.env.CI) throw error
    process.stderr.write(`Tests that need a DynamoDB engine are skipped: ${error.message}\n`)
    provide('engineEndpoint', '')
    provide('engineName', '')
    return async () => {}
  }
}
