import {existsSync} from 'node:fs'
import {expect, it} from 'vitest'
import {LONGEST} from './longest-files.js'

it('names existing files, each once', () => {
  expect(LONGEST.filter(file => !existsSync(file))).toEqual([])
  expect(new Set(LONGEST).size).toBe(LONGEST.length)
})
