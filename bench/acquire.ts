import {cpus} from 'node:os'
import {pressHotBucket} from './hot-bucket.js'
import {compareOneCall} from './one-call.js'
import {setStage} from './stage.js'

/**
 * What an acquire costs beside the bare calls it is made of, and what becomes of one bucket that everybody wants.
 * See bench/README.md for how to read it. `--quick` takes a quarter of the time and says less.
 */
process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true'
const isQuick = process.argv.includes('--quick')
const say = (text: string) => process.stdout.write(`${text}\n`)

const startedMs = performance.now()
const stage = await setStage()
try {
  say(
    `${stage.engineName}, Node ${process.versions.node}, ${cpus().length} cores; ratios count, absolute figures drift\n`,
  )
  say(await compareOneCall(stage, isQuick ? 1 : 3, isQuick ? 200 : 600))
  say('')
  say(await pressHotBucket(stage, isQuick ? 300 : 1500))
  say(`\n${((performance.now() - startedMs) / 1000).toFixed(0)} s`)
} finally {
  await stage.close()
}
