import {defineConfig} from 'vitest/config'
import {LongestFirst} from './test/helpers/longest-first.js'

// Node 20 lacks Map.groupBy, which vitest's reporter calls when a test fails; without this the diff is lost.
;(Map as {groupBy?: unknown}).groupBy ??= <K, T>(items: Iterable<T>, keyOf: (item: T) => K) => {
  const groups = new Map<K, T[]>()
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item])
  return groups
}

// Suites that take tens of seconds are left to CI, or to ZAEL_TEST_SLOW=1; everything else is for every run.
const isSlowRun = Boolean(process.env.ZAEL_TEST_SLOW)

// In bytes of executed bytecode: V8 optimises a function seven times later than by default. Most code of a test run is
// executed for milliseconds, and compiling it took a sixth of the CPU time. V8 has this option up to Node 20 only.
const LATE_OPTIMISATION = process.versions.node.startsWith('20.') ? ['--interrupt-budget=500000'] : []

export default defineConfig({
  // React as it ships, here and by NODE_ENV below: its development build takes twice the time of the live view's tests.
  oxc: {jsx: {development: false}},
  test: {
    include: [isSlowRun ? 'test/**/*.slow.test.ts' : 'test/**/!(*.slow).test.ts'],
    globalSetup: ['test/helpers/engine-setup.ts'],
    setupFiles: ['test/helpers/seed-properties.ts', 'test/helpers/leave-no-trace.ts'],
    reporters: ['default', './test/helpers/closing-line-reporter.ts'],
    sequence: {sequencer: LongestFirst},
    disableConsoleIntercept: true,
    // The SDK prints seven lines about Node 20 otherwise, in every worker.
    env: {
      AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true',
      // .ci/python.js leaves it to the first import to compile a module, and the next process is to find it compiled.
      PYTHONDONTWRITEBYTECODE: '',
      // npm, which slow suites start, would leave out the packages of development.
      ...(isSlowRun ? {} : {NODE_ENV: 'production'}),
    },
    // Tests wait for the engine and for timeouts: on two cores, a third file at once uses the time that two leave. Slow
    // suites also wait for processes and for real seconds, and left a quarter of the time to a fourth.
    maxWorkers: isSlowRun ? 4 : 3,
    // A process per file costs 40 % more CPU time, for loading the same modules again. Processes and not threads, since
    // commands are run in folders of their own, and `leave-no-trace.ts` fails a file that leaves something to the next.
    pool: 'forks',
    isolate: false,
    // Larger spaces for objects, in MiB, and no collections while a test waits: a worker keeps the modules of all its
    // files, so each collection of the whole heap is long.
    execArgv: [
      ...['--min-semi-space-size=64', '--max-semi-space-size=64', '--initial-old-space-size=768'],
      ...['--no-memory-reducer', '--no-flush-bytecode', ...LATE_OPTIMISATION],
    ],
    // Only a test that hangs gets there: how long the others take is up to the machine and to whoever else works on it.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: {poll: {timeout: 60_000}},
  },
})
