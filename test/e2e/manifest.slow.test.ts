import {readFileSync} from 'node:fs'
import {expect, it} from 'vitest'
import {ROOT, run} from './zael.js'

it('generates the committed manifest', async () => {
  expect(await run(process.execPath, ['.ci/manifest.js', '--check'], {})).toEqual({code: 0, stdout: '', stderr: ''})
})

it('has --json and --no-color in every command and its help', () => {
  const {commands} = JSON.parse(readFileSync(`${ROOT}/oclif.manifest.json`, 'utf8'))
  const flags = Object.entries(commands as Record<string, {flags: object}>)
  expect(flags.filter(([, command]) => !('json' in command.flags) || !('no-color' in command.flags))).toEqual([])
})
