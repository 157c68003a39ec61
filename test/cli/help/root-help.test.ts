import {readFile} from 'node:fs/promises'
import {describe, expect, it} from 'vitest'
import {rootHelp} from '../../../src/lib/cli/help/root-help.js'
import {packageFile} from '../../../src/lib/files/package-file.js'

const read = async (name: string) => JSON.parse(await readFile(packageFile(name), 'utf8'))
const {oclif} = await read('package.json')
const {commands} = await read('oclif.manifest.json')
const topLevel = Object.entries<{summary: string}>(commands).filter(([id]) => !id.includes(':'))
const PIPE = {width: 80, isBold: false}

describe('the first page of the help', () => {
  it('names every group and every ungrouped command in order, and no hidden one', () => {
    const page = rootHelp({oclif, commands: {...commands, secret: {summary: 'Not for people', hidden: true}}}, PIPE)
    expect(namesIn(page, 'TOPICS')).toEqual(Object.keys(oclif.topics).toSorted())
    expect(namesIn(page, 'COMMANDS')).toEqual(topLevel.map(([id]) => id))
    expect(namesIn(page, 'HELP TOPICS')).toEqual(['limit-syntax', 'environment', 'exit-codes'])
    expect(page).not.toContain('Not for people')
  })

  it.each([40, 80, 200])('fits into %i columns without losing a word', width => {
    const page = rootHelp({oclif, commands}, {width, isBold: false})
    expect(Math.max(...page.split('\n').map(line => line.length))).toBeLessThanOrEqual(width)
    const words = (text: string) => text.split(/\s+/).join(' ')
    for (const [, {summary}] of topLevel) expect(words(page)).toContain(words(summary))
    expect(words(page)).toContain(words(oclif.description))
  })

  it('has bold headings only on a terminal that supports them', () => {
    expect(rootHelp({oclif, commands}, {width: 80, isBold: true})).toContain('\u001b[1mUSAGE\u001b[22m\n')
    expect(rootHelp({oclif, commands}, PIPE)).not.toContain('\u001b')
  })
})

/** The first words of the lines of a section that begin an entry. */
function namesIn(page: string, title: string): string[] {
  const section = page.split('\n\n').find(part => part.startsWith(`${title}\n`)) ?? ''
  return section.split('\n').flatMap(line => /^ {2}(\S+)/.exec(line)?.[1] ?? [])
}
