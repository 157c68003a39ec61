import {pythonEnvironment} from '../test/helpers/python-environment.js'
import {importCompiled} from './compiled.js'
import {openEnvironment} from './environment.js'
import {machineLine, say} from './report.js'

/**
 * Compares an acquire with the bare SDK call, rate-limiter-flexible and zae-limiter for Python, on one engine in one run.
 * See bench/README.md. `--quick` takes a quarter of the time and is less precise.
 */
const {compareRivals} = (await importCompiled('rivals-run')) as typeof import('./rivals-run.js')

process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true'
// Without Python, prints a message and leaves its rows out.
const programs = pythonEnvironment({name: 'zae-limiter-0.17', usedFor: 'The rows of zae-limiter'})
const isQuick = process.argv.includes('--quick')
const environment = await openEnvironment()
try {
  say(`${machineLine(environment.engineName)}\n`)
  say(await compareRivals(environment, programs, isQuick ? 1 : 5, isQuick ? 300 : 1000))
} finally {
  await environment.close()
}
