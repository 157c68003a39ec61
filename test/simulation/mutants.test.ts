import {readFile} from 'node:fs/promises'
import {expect, it} from 'vitest'
import {MUTANTS} from './mutation/mutants.js'

it.each(MUTANTS)('has one place for a planted fault: $file, $what', async ({file, from, to}) => {
  const text = await readFile(new URL(`../../src/lib/${file}`, import.meta.url), 'utf8')
  expect(text.split(from)).toHaveLength(2)
  expect(to).not.toBe(from)
})
