import {mkdtemp, readdir, rm, stat, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterEach, beforeEach, expect, it} from 'vitest'
import {followLog, type LogEntry, openLog, parseLine, tailLog} from '../../../src/lib/local/state-dir/log.js'

const POLL_MS = 5
let folder = ''
let file = ''

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'zael-test-'))
  file = join(folder, 'stack.log')
})

afterEach(async () => {
  await rm(folder, {recursive: true})
})

const messages = (entries: readonly LogEntry[]) => entries.map(({message}) => message)

it('returns logged lines', async () => {
  const log = openLog(file, () => 0)
  log('warn', 'slow', {ms: 7, message: 'not this one'})
  log('info', 'done')
  expect(await tailLog(file, 10)).toEqual([
    {time: '1970-01-01T00:00:00.000Z', level: 'warn', message: 'slow', fields: {ms: 7}},
    {time: '1970-01-01T00:00:00.000Z', level: 'info', message: 'done', fields: {}},
  ])
  expect(messages(await tailLog(file, 1))).toEqual(['done'])
  expect(await tailLog(file, 0)).toEqual([])
  expect((await stat(file)).mode & 0o777).toBe(0o600)
})

it('limits the log to two files of bounded size, even across restarts', async () => {
  for (let restart = 0; restart < 30; restart++) {
    const log = openLog(file, () => 0, 1_000)
    for (let line = 0; line < 5; line++) log('info', `line ${restart * 5 + line}`)
  }
  expect(await readdir(folder)).toEqual(['stack.log', 'stack.log.1'])
  for (const name of await readdir(folder)) expect((await stat(join(folder, name))).size).toBeLessThanOrEqual(1_000)
  const last = messages(await tailLog(file, 12))
  expect(last).toEqual(Array.from({length: 12}, (_, index) => `line ${138 + index}`))
})

it('does not throw when the log cannot be written', () => {
  const log = openLog(join(folder, 'none', 'stack.log'), () => 0)
  expect(() => log('info', 'lost')).not.toThrow()
})

it('returns lines that are not JSON unchanged', async () => {
  await writeFile(file, 'FATAL ERROR: heap\n\n{"half": \n')
  expect(messages(await tailLog(file, 5))).toEqual(['FATAL ERROR: heap', '{"half": '])
  expect(parseLine('{"no":"message"}').message).toBe('{"no":"message"}')
})

it('follows every line once, across rotations', async () => {
  const log = openLog(file, () => 0, 400)
  for (let line = 0; line < 3; line++) log('info', `line ${line}`)
  const stop = new AbortController()
  const seen: string[] = []
  for await (const {message} of followLog(file, 2, stop.signal, POLL_MS)) {
    seen.push(message)
    if (seen.length < 28) log('info', `line ${seen.length + 2}`)
    else stop.abort()
  }
  expect(seen).toEqual(Array.from({length: 28}, (_, index) => `line ${index + 1}`))
})

it('waits for a log that does not exist yet', async () => {
  const stop = new AbortController()
  setTimeout(() => openLog(file, () => 0)('info', 'first'), 5 * POLL_MS)
  for await (const {message} of followLog(file, 1, stop.signal, POLL_MS)) {
    expect(message).toBe('first')
    stop.abort()
  }
})
