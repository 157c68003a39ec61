import type {Reporter, TestModule} from 'vitest/node'

/** Prints `N passed, N failed[, N skipped]` as the last line of the run, for people and scripts that read only that. */
export default class ClosingLineReporter implements Reporter {
  #passed = 0
  #failed = 0
  #skipped = 0
  #hasRun = false

  onInit(): void {
    // Not at the end of the run: stopping the engine and closing the workers can still print, and fail.
    process.once('exit', exitCode => {
      if (this.#hasRun || exitCode !== 0) process.stdout.write(`${this.#line(exitCode)}\n`)
    })
  }

  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    this.#hasRun = true
    this.#passed = 0
    this.#failed = unhandledErrors.length
    this.#skipped = 0
    for (const module of modules) {
      const failedTests = countTests(module, 'failed')
      this.#passed += countTests(module, 'passed')
      this.#skipped += countTests(module, 'skipped')
      // A file that fails to load, or a failing suite hook, has no failed test.
      this.#failed += failedTests === 0 && module.state() === 'failed' ? 1 : failedTests
    }
  }

  #line(exitCode: number): string {
    // Any other cause of a failed run (no test files, a failing set-up, an interrupt) counts as a failure.
    const failed = exitCode === 0 ? this.#failed : Math.max(this.#failed, 1)
    return `${this.#passed} passed, ${failed} failed${this.#skipped > 0 ? `, ${this.#skipped} skipped` : ''}`
  }
}

function countTests(module: TestModule, state: 'passed' | 'failed' | 'skipped'): number {
  return [...module.children.allTests(state)].length
}
