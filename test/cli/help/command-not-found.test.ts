import {readFile} from 'node:fs/promises'
import {describe, expect, it} from 'vitest'
import {pythonCommand, RENAMED} from '../../../src/lib/cli/help/command-not-found.js'

const manifest = JSON.parse(await readFile(new URL('../../../oclif.manifest.json', import.meta.url), 'utf8'))
const page = await readFile(new URL('../../../docs/from-python.md', import.meta.url), 'utf8')

describe('commands of the Python tool', () => {
  it.each(RENAMED)('%s is %s', (python, here) => {
    const words = here.split(' ')
    const [id = ''] = [`${words[0]}:${words[1]}`, words[0] ?? ''].filter(each => each in manifest.commands)
    const flags = words.filter(word => word.startsWith('--')).map(word => word.slice(2))
    expect(Object.keys(manifest.commands[id].flags)).toEqual(expect.arrayContaining(flags))
    // None of ours bears the name: it would never be asked for.
    expect(manifest.commands).not.toHaveProperty([python.replace(' ', ':')])
    expect(page).toContain(python.split(' ').at(-1))
  })

  it('are recognised by their first words, with or without arguments', () => {
    expect(pythonCommand(['resource', 'set-defaults', 'gpt-4'])).toBe('limits set --resource NAME')
    expect(pythonCommand(['resource'])).toBeUndefined()
    expect(pythonCommand(['limits', 'set'])).toBeUndefined()
  })
})
