import {expect, it} from 'vitest'
import {run} from './zael.js'

it('the committed manifest is what the commands generate', async () => {
  expect(await run(process.execPath, ['.ci/manifest.js', '--check'], {})).toEqual({code: 0, stdout: '', stderr: ''})
})
