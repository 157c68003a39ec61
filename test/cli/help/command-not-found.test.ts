import {readFile} from 'node:fs/promises'
import type {Config} from '@oclif/core/interfaces'
import {describe, expect, it} from 'vitest'
import {pythonCommand, RENAMED, typedWords, unknownCommand} from '../../../src/lib/cli/help/command-not-found.js'

const manifest = JSON.parse(await readFile(new URL('../../../oclif.manifest.json', import.meta.url), 'utf8'))
const page = await readFile(new URL('../../../docs/from-python.md', import.meta.url), 'utf8')

describe('commands of the Python tool', () => {
  it.each(RENAMED)('%s maps to %s', (python, here) => {
    const words = here.split(' ')
    const [id = ''] = [`${words[0]}:${words[1]}`, words[0] ?? ''].filter(each => each in manifest.commands)
    const flags = words.filter(word => word.startsWith('--')).map(word => word.slice(2))
    if (id === 'limits:unset') expect(flags).toContain('all')
    expect(Object.keys(manifest.commands[id].flags)).toEqual(expect.arrayContaining(flags))
    // No command of zael has this name, or the suggestion would never appear.
    expect(manifest.commands).not.toHaveProperty([python.replace(' ', ':')])
    expect(page).toContain(python.split(' ').at(-1))
  })

  it('are recognised by their first words, with or without arguments', () => {
    expect(pythonCommand(['resource', 'set-defaults', 'gpt-4'])).toBe('limits set --resource NAME')
    expect(pythonCommand(['resource'])).toBeUndefined()
    expect(pythonCommand(['limits', 'set'])).toBeUndefined()
  })
})

describe('arguments of a command that takes none', () => {
  const config = {bin: 'zael', commands: Object.values(manifest.commands), topics: []} as unknown as Config

  it.each([
    ['limits plan limits.yaml', 'Unexpected argument: limits.yaml', 'zael limits plan --file limits.yaml'],
    ['bucket list gpt-4', 'Unexpected argument: gpt-4', 'zael bucket list --resource gpt-4'],
    ['usage top gpt-4', 'Unexpected argument: gpt-4', 'zael usage top --resource gpt-4'],
    ['limits plan one.yaml two.yaml', 'Unexpected arguments: one.yaml, two.yaml', 'zael limits plan --help'],
    ['status prod', 'Unexpected argument: prod', 'zael status --help'],
    ['migrate plan prod', 'Unexpected argument: prod', 'zael migrate plan --help'],
  ])('are not part of its name: %s', (typed, message, hint) => {
    expect(unknownCommand(config, typed.split(' '))).toMatchObject({code: 'command.usage', message, hint})
  })

  it('are quoted for the shell in the suggested flag', () => {
    const {hint} = unknownCommand(config, ['limits', 'plan', 'my limits.yaml'])
    expect(hint).toBe("zael limits plan --file 'my limits.yaml'")
  })

  it('are not suggested where their flag was also given', () => {
    for (const flag of ['-f', '-fa.yaml', '--file', '--file=a.yaml'])
      expect(unknownCommand(config, ['limits', 'plan', 'b.yaml'], [flag]).hint).toBe('zael limits plan --help')
    expect(unknownCommand(config, ['limits', 'plan', 'b.yaml'], ['--json']).hint).toBe('zael limits plan --file b.yaml')
  })

  it('are shown as typed, also with a colon', () => {
    const typed = ['bucket', 'list', 'model:gpt', '--json']
    const {words, rest} = typedWords('bucket:list:model:gpt', [], typed)
    expect([words, rest]).toEqual([['bucket', 'list', 'model:gpt'], ['--json']])
    expect(unknownCommand(config, words, rest).hint).toBe('zael bucket list --resource model:gpt')
    expect(typedWords('nonsense:a', ['--json'], ['other'])).toEqual({words: ['nonsense', 'a'], rest: ['--json']})
  })

  it.each([
    ['entity block leaked-1', 'zael entity disable leaked-1'],
    ['entity unblock leaked-1', 'zael entity enable leaked-1'],
    ['resource block gpt-4', 'zael resource disable gpt-4'],
    ['entity block', 'zael entity disable'],
    ['entity shwo user-1', 'zael entity show user-1'],
    ['migrate statsu now', 'zael migrate status'],
  ])('are repeated in the suggested command if it takes any: %s', (typed, hint) => {
    expect(unknownCommand(config, typed.split(' '))).toMatchObject({code: 'command.unknown', hint})
  })

  it('do not hide a misspelt command', () => {
    expect(unknownCommand(config, ['migrate', 'statsu'])).toMatchObject({
      code: 'command.unknown',
      hint: 'zael migrate status',
    })
  })
})
