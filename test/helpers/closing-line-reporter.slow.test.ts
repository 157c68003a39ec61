import {execFile} from 'node:child_process'
import {fileURLToPath} from 'node:url'
import {describe, expect, it} from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const FOLDER = 'test/helpers/fixtures/closing-line'

describe('the last line of a test run', () => {
  it.concurrent.each([
    {run: 'green', setup: 'none', line: '2 passed, 0 failed', exitCode: 0},
    {run: 'mixed', setup: 'none', line: '1 passed, 2 failed, 3 skipped', exitCode: 1},
    {run: 'unloadable', setup: 'none', line: '0 passed, 1 failed', exitCode: 1},
    {run: 'hook', setup: 'none', line: '1 passed, 1 failed', exitCode: 1},
    {run: 'unhandled', setup: 'none', line: '1 passed, 1 failed', exitCode: 1},
    {run: '.fixture.ts', setup: 'none', line: '5 passed, 5 failed, 3 skipped', exitCode: 1},
    {run: 'no-such-file', setup: 'none', line: '0 passed, 1 failed', exitCode: 1},
    {run: 'green', setup: 'failing-setup', line: '0 passed, 1 failed', exitCode: 1},
    {run: 'green', setup: 'failing-teardown', line: '2 passed, 1 failed', exitCode: 1},
  ])('$run, setup $setup: $line', async ({run, setup, line, exitCode}) => {
    const result = await runVitest(run, setup === 'none' ? '' : `${FOLDER}/${setup}.ts`)
    expect(result.output.split('\n').slice(-2), result.output).toEqual([line, ''])
    expect(result.exitCode).toBe(exitCode)
  })
})

function runVitest(run: string, setup: string): Promise<{output: string; exitCode: number | null}> {
  const args = ['node_modules/vitest/vitest.mjs', 'run', '--root', '.', '--config', `${FOLDER}/vitest.config.ts`, run]
  return new Promise(resolve => {
    const child = execFile(
      process.execPath,
      args,
      {cwd: ROOT, env: {...process.env, FIXTURE_SETUP: setup, NO_COLOR: '1'}},
      (_error, output) => resolve({output, exitCode: child.exitCode}),
    )
  })
}
