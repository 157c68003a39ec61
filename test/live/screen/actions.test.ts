import {afterEach, beforeEach, describe, expect, it, vi} from 'vitest'
import type {Reading} from '../../../src/lib/live/model/model.js'
import type {ActionKind, ActionTarget, BucketActions} from '../../../src/lib/live/state/actions.js'
import {bucketOf, READ_AT_MS, readingOf} from '../support.js'
import {SAMPLE} from './fixtures.js'
import {KEY, OpenView} from './view.js'

/** Records questions and actions; tests trigger the answers. */
class FakeActions implements BucketActions {
  readonly asked: {kind: ActionKind; target: ActionTarget; text: string | undefined}[] = []
  readonly performed: string[] = []
  draft = 'tpm=200k/min --for 1h'
  lines = ['This refills everything: tpm 12 → 100,000']
  flags: readonly string[] = ['--stack', 'prod']
  problem: Error | undefined
  answer: (...lines: string[]) => void = () => {}
  refuse: (error: Error) => void = () => {}

  async boostText(): Promise<string> {
    return this.draft
  }

  async ask(kind: ActionKind, target: ActionTarget, text: string | undefined) {
    this.asked.push({kind, target, text})
    if (this.problem) throw this.problem
    const {entity, resource} = target
    return {
      ...(kind === 'block' && {resource: null}),
      command: ['zael', kind, entity, '--resource', resource, ...this.flags],
      lines: this.lines,
      perform: () => {
        this.performed.push(`${kind} ${entity} ${resource}`)
        return new Promise<readonly string[]>((resolve, reject) => {
          this.answer = (...lines) => resolve(lines)
          this.refuse = reject
        })
      },
    }
  }
}

let open: OpenView | undefined
let actions: FakeActions

async function show(readings: readonly Reading[] = SAMPLE, options: Parameters<typeof OpenView.open>[1] = {}) {
  open = await OpenView.open(readings, {actions, rows: 20, ...options})
  return open
}

beforeEach(() => {
  actions = new FakeActions()
})

afterEach(async () => {
  if (open) {
    await open.press(KEY.ctrlC, KEY.ctrlC)
    await open.result.catch(() => {})
  }
  open = undefined
  vi.useRealTimers()
})

/** Buckets whose order by level is that given. */
const ordered = (...names: string[]): Reading[] =>
  names.map((name, left) =>
    readingOf(bucketOf(`${name}#r`, {limits: {tpm: {capacity: 100, left, refillPerSecond: 0.001}}})),
  )

describe('a view with actions', () => {
  it('shows the keys, asks with the command, acts once, shows the result and polls', async () => {
    const view = await show()
    expect(view.statusLine).toContain('? help · q quit · R reset · B boost · X block · / filter')
    await view.press('jj', 'R')
    expect(actions.asked).toMatchObject([
      {kind: 'reset', target: {entity: 'team-research', resource: 'gpt-4', limit: 'tpm'}},
    ])
    expect(view.terminal.lines.slice(2, 11)).toEqual([
      'Reset team-research · gpt-4',
      '',
      'This refills everything: tpm 12 → 100,000',
      '',
      'Equivalent command:',
      'zael reset team-research --resource gpt-4 --stack prod',
      '',
      'Continue? y/N',
      '',
    ])
    expect(view.statusLine).toBe('y continue · any other key cancels')
    expect(actions.performed).toEqual([])
    await view.press('y')
    expect(view.terminal.screen).toContain('Running.')
    await view.press('y', 'R', KEY.enter, 'X')
    expect(actions.performed).toEqual(['reset team-research gpt-4'])
    const polls = view.watch.calls.filter(call => call === 'poll').length
    actions.answer('The bucket is full: tpm +99,988')
    await view.pass(100)
    expect(view.terminal.lines.slice(2, 8)).toEqual([
      'Reset team-research · gpt-4: done',
      '',
      'The bucket is full: tpm +99,988',
      '',
      'Equivalent command:',
      'zael reset team-research --resource gpt-4 --stack prod',
    ])
    expect(view.watch.calls.filter(call => call === 'poll')).toHaveLength(polls + 1)
    await view.press(KEY.escape)
    expect(view.selected).toBe('team-research')
    await view.press('q')
    expect((await view.result).performed).toEqual([
      expect.stringMatching(/^\d\d:\d\d:\d\dZ zael reset team-research --resource gpt-4 --stack prod: done$/),
    ])
  })

  it('lists its keys in the help', async () => {
    const view = await show()
    await view.press('?')
    expect(view.terminal.screen).toMatch(
      /R reset the bucket \(asks\)[\s\S]*B set temporary limits[\s\S]*X block, unblock/,
    )
  })

  it('acts on the row of the question, also after the cursor moves', async () => {
    const view = await show(ordered('ada', 'ben', 'eve'))
    // Nothing was selected: the cursor is on the first row, whichever that is.
    await view.press('X')
    view.watch.poll(ordered('eve', 'ben', 'ada'))
    await view.pass(100)
    // The block affects more than the row, and the title says so.
    expect(view.terminal.screen).toContain('Block ada · all resources')
    await view.press('y')
    expect(actions.performed).toEqual(['block ada r'])
    actions.answer('disabled')
    await view.pass(100)
    await view.press(KEY.escape, 'X')
    view.watch.poll(ordered('ben', 'eve'))
    await view.pass(100)
    await view.press('y')
    expect(actions.performed).toEqual(['block ada r', 'block ada r'])
  })

  it('declines with any other key, and confirms that', async () => {
    const view = await show()
    for (const key of ['n', KEY.escape, KEY.enter, 'q', ' ', KEY.tab]) {
      await view.press('R', key)
      expect(view.statusLine).toBe('cancelled: nothing was changed')
      expect(view.entities).toHaveLength(6)
    }
    expect(actions.performed).toEqual([])
  })

  it('unblocks a row that is shown as disabled', async () => {
    const [first] = ordered('ada')
    const [shard] = first?.bucket.shards ?? []
    if (!first || shard?.kind !== 'bucket') throw new Error('no bucket')
    const shards = [{...shard, record: {...shard.record, isDisabled: true as const}}]
    const view = await show([{...first, bucket: {...first.bucket, shards}}])
    expect(view.terminal.screen).toMatch(/ada +r +disabled/)
    await view.press('X')
    expect(actions.asked).toMatchObject([{kind: 'unblock', target: {entity: 'ada', isDisabled: true}}])
    expect(view.terminal.screen).toContain('Unblock ada · r')
  })

  it('edits a boost, keeps a wrong text, and asks about the right one', async () => {
    const view = await show()
    await view.press('jj', 'B')
    expect(view.terminal.screen).toContain('> tpm=200k/min --for 1h_')
    await view.press(KEY.ctrlU, 'tpm=x')
    actions.problem = Object.assign(new Error('x is not a rate'), {hint: 'Write tpm=200k/min --for 1h.'})
    await view.press(KEY.enter)
    expect(view.terminal.screen).toMatch(/> tpm=x_\n\nx is not a rate\nWrite tpm=200k\/min --for 1h\.\n/)
    actions.problem = undefined
    await view.press(KEY.backspace, '300k --for 2h', KEY.left, KEY.left, KEY.enter)
    expect(actions.asked.map(({text}) => text)).toEqual(['tpm=x', 'tpm=300k --for 2h'])
    expect(view.terminal.screen).toContain('Continue? y/N')
    await view.press('y')
    expect(actions.performed).toEqual(['boost team-research gpt-4'])
  })

  it('shows the error, and continues', async () => {
    const view = await show()
    await view.press('R', 'y')
    actions.refuse(Object.assign(new Error('no permission\nfor this'), {hint: 'Ask an admin.'}))
    await view.pass(100)
    expect(view.terminal.lines.slice(2, 8)).toEqual([
      'Reset user-debt · gpt-4: failed',
      '',
      '✖ no permission',
      'for this',
      'Ask an admin.',
      '',
    ])
    await view.press(KEY.escape)
    actions.problem = new Error('no bucket')
    await view.press('R')
    expect(view.terminal.lines.slice(2, 5)).toEqual(['Reset user-debt · gpt-4: not possible', '', '✖ no bucket'])
    await view.press(KEY.escape)
    expect(view.entities).toHaveLength(6)
    await view.press('q')
    expect(await view.result).toMatchObject({
      exitCode: 0,
      performed: [expect.stringContaining('failed: no permission')],
    })
  })

  it.each([
    ['q', 'q', 0],
    ['Ctrl-C', KEY.ctrlC, 130],
  ])('waits for the running action on %s', async (_, key, exitCode) => {
    const view = await show()
    await view.press('R', 'y', key)
    expect(view.terminal.isAlternate).toBe(true)
    expect(view.terminal.screen).toContain('Running. The view closes when it is done.')
    actions.answer('full')
    await view.pass(100)
    expect(await view.result).toMatchObject({exitCode, performed: [expect.stringMatching(/: done$/)]})
  })

  it('quits at the second Ctrl-C, and warns that the action may have been applied', async () => {
    const view = await show()
    await view.press('R', 'y', KEY.ctrlC, KEY.ctrlC)
    expect(await view.result).toMatchObject({
      exitCode: 130,
      performed: [expect.stringContaining('the outcome is unknown. Check the audit events of user-debt.')],
    })
  })

  it('waits for the running action when --for ends', async () => {
    const view = await show(SAMPLE, {forMs: 5000})
    await view.press('R', 'y')
    await view.pass(6000)
    expect(view.terminal.isAlternate).toBe(true)
    actions.answer('full')
    await view.pass(100)
    expect((await view.result).exitCode).toBe(0)
  })

  it('wraps a long command so that it can be copied, and escapes stored names', async () => {
    actions.flags = [
      '--stack',
      'a-stack-with-a-long-name',
      '--endpoint-url',
      'http://127.0.0.1:8000',
      '--profile',
      "'a b'",
    ]
    const reading = readingOf(bucketOf('\u001b[2Jevil#r', {limits: {tpm: {capacity: 100}}}))
    const view = await show([reading], {columns: 60})
    await view.press('R')
    const lines = view.terminal.lines
    const from = lines.indexOf('Equivalent command:') + 1
    expect(lines.slice(from, lines.indexOf('', from)).join('\n').replaceAll('\\\n', '')).toBe(
      "zael reset \\x1b[2Jevil --resource r --stack a-stack-with-a-long-name --endpoint-url http://127.0.0.1:8000 --profile 'a b'",
    )
    expect(view.terminal.output).not.toContain('[2Jevil\u001b')
    expect(view.terminal.output).not.toContain('\u001b[2Jevil')
  })

  it('does not ask on a screen that is too small for the question', async () => {
    actions.lines = Array.from({length: 30}, (_, line) => `line ${line}`)
    const view = await show(SAMPLE, {rows: 8, columns: 40})
    await view.press('R')
    expect(view.terminal.lines[2]).toMatch(/^Reset user-debt · gpt-4 {2}lines 1-2 of/)
    await view.press('y')
    expect(view.statusLine).toContain('scroll down to the end')
    view.terminal.resize(39, 7)
    await view.pass(100)
    await view.press('G', 'y')
    view.terminal.resize(40, 8)
    await view.pass(100)
    expect(actions.performed).toEqual([])
    await view.press('G')
    expect(view.terminal.screen).toContain('Continue? y/N')
    await view.press('y')
    expect(actions.performed).toEqual(['reset user-debt gpt-4'])
  })

  it('draws its arrows with --ascii', async () => {
    const view = await show(SAMPLE, {ascii: true})
    await view.press('R')
    expect(view.terminal.screen).toContain('tpm 12 -> 100,000')
    expect(view.terminal.screen).toMatch(/^[\n\x20-\x7e]*$/)
  })

  it('shows times by the clock of the server', async () => {
    const view = await show()
    await view.press('R', 'y')
    actions.answer('full')
    await view.pass(100)
    await view.press('q')
    const [line = ''] = (await view.result).performed
    expect(line.slice(0, 8)).toBe(new Date(READ_AT_MS + 1000).toISOString().slice(11, 19))
  })
})

describe('a view without actions', () => {
  it('binds no action key, and mentions none', async () => {
    const view = await show(SAMPLE, {actions: undefined, columns: 120})
    const before = view.terminal.screen
    expect(before).not.toMatch(/reset|boost|block/)
    await view.press('R', 'y', KEY.escape, 'B', KEY.enter, KEY.escape, 'X', KEY.escape, 'Ry')
    expect(view.terminal.screen).not.toMatch(/Reset|Boost|Block|y\/N/)
    await view.press(KEY.escape, '?')
    expect(view.terminal.screen).not.toMatch(/reset|boost|block/)
    expect(actions.asked).toEqual([])
    await view.press(KEY.escape, 'q')
    expect((await view.result).performed).toEqual([])
  })
})
