import {spawn} from 'node:child_process'
import {once} from 'node:events'
import {mkdtempSync, readdirSync, readFileSync, rmSync} from 'node:fs'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterEach, beforeEach, describe, expect, it} from 'vitest'
import {outcomeOf, ROOT, run} from '../e2e/zael.js'
import {cleanEnvironment} from '../helpers/run-command.js'

const NAMES = ['ai-sdk-app', 'express-api', 'gateway']

/** Everything that the example puts down is below it. */
let folder = ''

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'zael-examples-'))
})

afterEach(() => rmSync(folder, {recursive: true}))

/** Processes that the example has started, and itself, while they run: they have inherited the folder. Linux only. */
function processes(): string[] {
  const pids = process.platform === 'linux' ? readdirSync('/proc').filter(name => /^\d+$/.test(name)) : []
  return pids.filter(pid => {
    try {
      return readFileSync(`/proc/${pid}/environ`, 'utf8').includes(folder)
    } catch {
      return false // it has ended, or is somebody else's
    }
  })
}

async function expectNothingLeft(): Promise<void> {
  // tsx caches compiled files.
  expect(readdirSync(folder).filter(name => !name.startsWith('tsx-'))).toEqual([])
  await expect.poll(processes).toEqual([])
}

/** Rows of the table under "Charges": usage and charge. */
function accountsIn(stdout: string): {who: string; used: string; charged: string}[] {
  const [, text = ''] = stdout.split('who ')
  return [...text.matchAll(/^ {3}(\S+ .*?) +([\d,]+) +([\d,]+)$/gm)].map(([, who = '', used = '', charged = '']) => ({
    who: who.replaceAll(/ +/g, ' '),
    used,
    charged,
  }))
}

describe('the examples', () => {
  it('are covered by this test', () => {
    const folders = readdirSync(join(ROOT, 'examples'), {withFileTypes: true}).filter(entry => entry.isDirectory())
    const names = folders
      .map(({name}) => name)
      .filter(name => readdirSync(join(ROOT, 'examples', name)).includes('main.ts'))
    expect(names.sort()).toEqual(NAMES)
  })

  it.each(NAMES)(
    '%s runs to its end, and shows admissions, refusals with their fields, and the charges that the provider counted',
    {timeout: 600_000},
    async name => {
      const args = ['--import', 'tsx', 'examples/run.ts', name]
      const {code, stdout, stderr} = await run(process.execPath, args, {cwd: ROOT, env: {TMPDIR: folder}})
      expect({code, stderr}).toEqual({code: 0, stderr: ''})

      expect(stdout).toMatch(/^ {3}429 .*\n(?: {7}.*\n)* {7}retry-after: \d+$/m)
      const counted = [...stdout.matchAll(/^ {3}200 .*the provider's usage: (\d+) tokens$/gm)].map(([, tokens]) =>
        Number(tokens),
      )
      expect(counted.length).toBeGreaterThan(1)
      const accounts = accountsIn(stdout)
      expect(accounts.length).toBeGreaterThan(1)
      expect(accounts.filter(({used, charged}) => used !== charged)).toEqual([])
      const ofTokens = accounts.filter(({who}) => who.endsWith(' tokens')).map(({charged}) => Number(charged))
      expect(ofTokens[0]).toBe(counted.reduce((sum, tokens) => sum + tokens, 0))
      // Requests that the provider refused.
      expect(ofTokens.slice(1).filter(tokens => tokens !== 0)).toEqual([])
      await expectNothingLeft()
    },
  )

  it('keep running with --serve until a signal, and leave nothing behind', {timeout: 600_000}, async () => {
    const args = ['--import', 'tsx', 'examples/run.ts', 'express-api', '--serve']
    const child = spawn(process.execPath, args, {
      cwd: ROOT,
      env: cleanEnvironment({TMPDIR: folder}),
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    try {
      const ended = outcomeOf(child)
      let printed = ''
      child.stdout.on('data', chunk => {
        printed += chunk
      })
      while (!/until Ctrl-C\n(?: .*\n)* .*watch --stack local\n/.test(printed)) {
        const next = await Promise.race([once(child.stdout, 'data'), ended])
        if ('code' in next) throw new Error(`ended too early: ${JSON.stringify(next)}`)
      }
      const [, url] = /Serving on (\S+) until/.exec(printed) ?? []
      const answer = await fetch(`${url}/notes`, {headers: {'x-api-key': 'key-of-ben'}})
      expect({status: answer.status, left: answer.headers.get('ratelimit')}).toMatchObject({
        status: 200,
        left: expect.stringContaining('"rpd";r=6'),
      })
      // The example, the supervisor of the stack and the engine: the search below would see them.
      if (process.platform === 'linux') expect(processes().length).toBeGreaterThanOrEqual(3)
      child.kill('SIGTERM')
      expect(await ended).toMatchObject({code: 143, stderr: ''})
      await expectNothingLeft()
    } finally {
      child.kill('SIGKILL')
    }
  })

  it('are listed when an unknown one is named', async () => {
    const {code, stderr} = await run(process.execPath, ['--import', 'tsx', 'examples/run.ts'], {cwd: ROOT})
    expect(code).toBe(2)
    expect(stderr).toContain(NAMES.join(' | '))
  })
})
