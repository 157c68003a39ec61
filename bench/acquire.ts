import {importCompiled} from './compiled.js'
import {openEnvironment} from './environment.js'
import {pressHotBucket} from './hot-bucket.js'
import {compareOneCall} from './one-call.js'
import {machineLine, say} from './report.js'

/**
 * Measures an acquire against its bare calls, the limiter alone, and one contended bucket. See bench/README.md. `--quick` takes
 * a quarter of the time and is less precise.
 */
const {measureStubbed} = (await importCompiled('stubbed')) as typeof import('./stubbed.js')

process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true'
const isQuick = process.argv.includes('--quick')

const startedMs = performance.now()
const environment = await openEnvironment()
try {
  say(`${machineLine(environment.engineName)}\n`)
  say(await compareOneCall(environment, isQuick ? 1 : 3, isQuick ? 200 : 600))
  say('')
  say(await measureStubbed(isQuick ? 2 : 20, isQuick ? 100 : 150))
  say('')
  say(await pressHotBucket(environment, isQuick ? 300 : 1500))
  say(`\n${((performance.now() - startedMs) / 1000).toFixed(0)} s`)
} finally {
  await environment.close()
}
