import {PassThrough} from 'node:stream'
import {describe, expect, it} from 'vitest'
import {agree, confirm, confirmByName, type Terminal} from '../../../src/lib/cli/output/confirm.js'

/** A terminal with typed input; `undefined` is the end of input. */
function terminal(typed: string | undefined, isTTY = true): Terminal & {shown: () => string} {
  const stdin = Object.assign(new PassThrough(), {isTTY})
  const stderr = Object.assign(new PassThrough(), {isTTY})
  stdin.end(typed)
  return {stdin, stderr, shown: () => String(stderr.read() ?? '')}
}

describe('agree', () => {
  it('asks, and treats anything but a yes as a no', async () => {
    const at = terminal('y\n')
    expect(await agree('Write them?', at)).toBe(true)
    expect(at.shown()).toContain('Write them? [y/N] ')
    for (const typed of ['n\n', '\n', undefined]) expect(await agree('Write them?', terminal(typed))).toBe(false)
  })

  it('does not ask without a terminal', async () => {
    const at = terminal('y\n', false)
    expect(await agree('Write them?', at)).toBe(false)
    expect(at.shown()).toBe('')
  })
})

describe('confirm', () => {
  it.each(['y\n', 'Y\n', 'yes\n', ' y \n'])('continues on %j', async typed => {
    const at = terminal(typed)
    await confirm('This deletes all', {yes: false}, at)
    expect(at.shown()).toContain('This deletes all. Continue? [y/N] ')
  })

  it.each(['n\n', '\n', 'yep\n', undefined])('changes nothing on %j', async typed => {
    await expect(confirm('This deletes all', {yes: false}, terminal(typed))).rejects.toMatchObject({
      code: 'confirm.declined',
      kind: 'failed',
    })
  })

  it('suggests the likely alternative, before the question or in the refusal', async () => {
    const instead = 'To delete one: zael delete one'
    const at = terminal('y\n')
    await confirm('This deletes all', {yes: false, instead}, at)
    expect(at.shown()).toMatch(/^This deletes all\.\nTo delete one: zael delete one\n.*Continue\? \[y\/N\] /s)
    await expect(confirm('This deletes all', {yes: false, instead}, terminal('y\n', false))).rejects.toMatchObject({
      code: 'confirm.needed',
      kind: 'usage',
      hint: `Add --yes: zael cannot ask without a terminal. ${instead}`,
    })
  })

  it('breaks the alternative at spaces to fit the terminal', async () => {
    const at = terminal('y\n')
    const narrow = {...at, stderr: Object.assign(at.stderr, {columns: 20})}
    await confirm('This deletes all of them', {yes: false, instead: 'To delete one: zael delete one'}, narrow)
    expect(at.shown()).toMatch(/^This deletes all of\n {4}them\.\nTo delete one: zael\n {4}delete one\n/)
  })

  it('asks in one line, and shows hidden characters', async () => {
    const at = terminal('y\n')
    await confirm('This deletes "a\u001b[2K\n\u202eb"', {yes: false}, at)
    expect(at.shown()).toContain('This deletes "a\\x1b[2K\\n\\u202eb". Continue? [y/N] ')
  })

  it('starts a new line after the end of input', async () => {
    const at = terminal(undefined)
    await expect(confirm('This deletes all', {yes: false}, at)).rejects.toThrow()
    expect(at.shown()).toMatch(/\[y\/N\] [^\n]*\n$/)
  })

  it('exits with 130 on Ctrl-C', async () => {
    const at = terminal('\u0003')
    await expect(confirm('This deletes all', {yes: false}, at)).rejects.toMatchObject({oclif: {exit: 130}})
  })

  it('skips the question with --yes, and requires --yes without a terminal', async () => {
    const at = terminal('n\n')
    await confirm('This deletes all', {yes: true}, at)
    expect(at.shown()).toBe('')
    await expect(confirm('This deletes all', {yes: false}, terminal('y\n', false))).rejects.toMatchObject({
      code: 'confirm.needed',
      kind: 'usage',
    })
  })
})

describe('confirmByName', () => {
  const ask = (typed: string | undefined, given?: string, isTTY = true) =>
    confirmByName('This deletes all', 'acme', {confirm: given}, terminal(typed, isTTY))

  it('continues when the name is typed, and shows what to type', async () => {
    const at = terminal('acme\n')
    await confirmByName('This deletes all', 'acme', {confirm: undefined}, at)
    expect(at.shown()).toContain('This deletes all. Type "acme" to continue: ')
    await ask(' acme \n')
  })

  it.each(['y\n', 'yes\n', 'Acme\n', '\n', 'acme2\n', undefined])('changes nothing on %j', async typed => {
    await expect(ask(typed)).rejects.toMatchObject({code: 'confirm.declined', kind: 'failed'})
  })

  it('exits with 130 on Ctrl-C', async () => {
    await expect(ask('\u0003')).rejects.toMatchObject({oclif: {exit: 130}})
  })

  it('requires the exact name in --confirm, and --confirm without a terminal', async () => {
    await ask('no\n', 'acme', false)
    await expect(ask('acme\n', 'amce')).rejects.toMatchObject({code: 'confirm.name', kind: 'usage'})
    await expect(ask('acme\n', '')).rejects.toMatchObject({code: 'confirm.name'})
    await expect(ask('acme\n', undefined, false)).rejects.toMatchObject({
      code: 'confirm.needed',
      kind: 'usage',
      hint: 'Add --confirm acme: zael cannot ask without a terminal.',
    })
  })
})
