import {execFile} from 'node:child_process'
import {promisify} from 'node:util'
import {expect, it} from 'vitest'

/** A flag that V8 does not know is told on the error output, and nowhere else. */
it('V8 knows every flag, whatever the version of Node', async () => {
  const path = new URL('../../../src/lib/cli/watch/small-heap.ts', import.meta.url).href
  const script = `const {keepHeapSmall} = await import(${JSON.stringify(path)}); keepHeapSmall(); console.log('done')`
  const args = ['--import', 'tsx', '--input-type=module', '--eval', script]
  const {stdout, stderr} = await promisify(execFile)(process.execPath, args)
  expect({stdout, stderr}).toEqual({stdout: 'done\n', stderr: ''})
})
