import {readFileSync} from 'node:fs'
import {join} from 'node:path'
import {describe, expect, it} from 'vitest'
import {ROOT} from '../helpers/run-command.js'
import {type SyntaxNode, syntaxNodes} from '../helpers/sources.js'

/** The interfaces whose members are the options of each adapter. */
const OPTIONS: Readonly<Record<string, readonly string[]>> = {
  hono: ['GuardOptions', 'DecisionOptions'],
  express: ['GuardOptions', 'DecisionOptions'],
  fastify: ['GuardOptions', 'DecisionOptions'],
  fetch: ['LimitedFetchOptions', 'CallOptions', 'DecisionOptions'],
  'ai-sdk': ['CallOptions', 'DecisionOptions'],
}
const SOURCES = ['guard', 'call-charge', 'fetch', 'ai-sdk'].map(name => `src/lib/adapters/${name}.ts`)

/** Names of the members of an interface. */
function membersOf(name: string): string[] {
  const files = SOURCES.map(path => ({path, text: readFileSync(join(ROOT, path), 'utf8')}))
  const found = files
    .flatMap(file => syntaxNodes(file))
    .find(({node}) => node.type === 'TSInterfaceDeclaration' && node.id.name === name)
  if (!found) throw new Error(`no interface ${name}`)
  return found.node.body.body.map(({key}: SyntaxNode) => key.name)
}

/** The text of a section of a page. */
function section(page: string, title: string): string {
  const text = readFileSync(join(ROOT, 'docs/adapters', `${page}.md`), 'utf8')
  const [, rest] = text.split(`\n## ${title}\n`)
  return rest?.split('\n## ')[0] ?? ''
}

describe.each(Object.entries(OPTIONS))('the page of %s', (page, interfaces) => {
  it('lists exactly the options of the adapter', () => {
    const options = [...section(page, 'Options').matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => name)
    expect(options.toSorted()).toEqual([...new Set(interfaces.flatMap(membersOf))].toSorted())
  })

  it.each([/refused/, /waited/, /(disconnects|aborts|aborted)/, /provider/, /outage, `block`/, /outage, `allow`/])(
    'states the charge of: %s',
    what => {
      const rows = [...section(page, 'Charges').matchAll(/^\| (.+?) \|/gm)].map(([, row]) => row ?? '')
      expect(rows.filter(row => what.test(row))).not.toEqual([])
    },
  )

  it('states the charges after a crash', () => {
    expect(section(page, 'After a crash')).toMatch(/stay(s)? charged/)
  })
})
