import {expect, it} from 'vitest'
import {ROOT, run} from '../e2e/zael.js'

it('runs the demo of the README to its end, and counts every charge', {timeout: 180_000}, async () => {
  const {code, stdout, stderr} = await run(process.execPath, ['--import', 'tsx', 'docs/demo/run.ts'], {cwd: ROOT})
  expect({code, stderr}).toEqual({code: 0, stderr: ''})
  const [, charged, counted] = /([\d,]+) tokens were charged and exactly ([\d,]+) were counted/.exec(stdout) ?? []
  expect(counted).toMatch(/^[1-9]/)
  expect(counted).toBe(charged)
})
