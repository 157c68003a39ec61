import {afterEach, expect, it, vi} from 'vitest'
import {writeLines} from '../../../src/lib/cli/output/lines.js'

afterEach(() => vi.restoreAllMocks())

it('writes lines in chunks, and waits until the reader has taken the last one', async () => {
  const written: string[] = []
  vi.spyOn(process.stdout, 'write').mockImplementation(chunk => {
    written.push(String(chunk))
    return false
  })
  let made = 0
  function* lines() {
    for (; made < 10_000; made += 1) yield `line ${made} ${'x'.repeat(40)}`
  }
  const done = writeLines(lines())
  expect(written).toHaveLength(1)
  expect(made).toBeLessThan(2000)
  const isDone = done.then(() => true)
  while (written.length < 8) {
    const before = written.length
    process.stdout.emit('drain')
    await vi.waitFor(() => expect(written.length).toBeGreaterThan(before))
  }
  expect(await isDone).toBe(true)
  expect(written.join('').trimEnd().split('\n')).toHaveLength(10_000)
})

it('writes each as one line, and escapes hidden characters', async () => {
  const write = vi.spyOn(process.stdout, 'write').mockReturnValue(true)
  await writeLines(['a\nb', '\u001b[31m'])
  expect(write.mock.calls).toEqual([['a\\nb\n\\x1b[31m\n']])
})
