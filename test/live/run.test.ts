import {execFile} from 'node:child_process'
import {promisify} from 'node:util'
import {expect, it} from 'vitest'
import {SMALLEST_HEAP_FLAGS} from '../../src/lib/cli/output/long-list.js'

it('passes only heap flags that the V8 of this Node knows', async () => {
  const args = [...SMALLEST_HEAP_FLAGS, '--eval', 'console.log("done")']
  expect(await promisify(execFile)(process.execPath, args)).toEqual({stdout: 'done\n', stderr: ''})
})
