import {readFileSync} from 'node:fs'
import {expect} from 'vitest'

// On CI properties are tried on the same examples in every run: a change is not to be held up by an example that has
// nothing to do with it. Everywhere else the examples are new ones each time, which is how such an example is found.
const {testPath} = expect.getState()
if (process.env.CI && testPath && readFileSync(testPath, 'utf8').includes("from 'fast-check'")) {
  const {default: fc} = await import('fast-check')
  fc.configureGlobal({seed: 1})
}
