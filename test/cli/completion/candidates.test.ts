import {readFileSync} from 'node:fs'
import {describe, expect, it} from 'vitest'
import {type CommandSet, complete} from '../../../src/lib/cli/completion/main.js'

const string = {type: 'option'} as const
const flags = {
  json: {name: 'json', type: 'boolean', description: 'As JSON.'},
  stack: {...string, name: 'stack', char: 's'},
  output: {...string, name: 'output', char: 'o', options: ['table', 'json', 'csv']},
  namespace: {...string, name: 'namespace', char: 'n'},
  resource: {...string, name: 'resource', char: 'r'},
  tag: {...string, name: 'tag', multiple: true},
  secret: {name: 'secret', type: 'boolean', hidden: true},
} as const

const COMMANDS: CommandSet = {
  'limits:set': {summary: 'Set limits', args: {limits: {name: 'limits', multiple: true}}, flags},
  'limits:resolve': {
    summary: 'Resolve',
    args: {entity: {name: 'entity'}, resource: {name: 'resource'}},
    flags,
  },
  'local:up': {args: {}, flags: {}},
  'namespace:create': {args: {names: {name: 'names', multiple: true}}, flags},
  'namespace:purge': {args: {namespace: {name: 'namespace'}}, flags},
  'entity:show': {args: {id: {name: 'id'}}, flags},
  'entity:hidden': {hidden: true, args: {}, flags},
  autocomplete: {summary: 'Teach', args: {shell: {name: 'shell', options: ['bash', 'zsh']}}, flags: {}},
}

const words = (line: string): string[] => {
  const completion = complete(COMMANDS, line.split(' '))
  return completion.kind === 'words' ? completion.candidates.map(({value}) => value) : [`names: ${completion.of}`]
}

describe('completion', () => {
  it.each([
    ['', ['autocomplete', 'entity', 'limits', 'local', 'namespace']],
    ['l', ['limits', 'local']],
    ['limits ', ['resolve', 'set']],
    ['limits s', ['set']],
    ['entity ', ['show']],
    ['nonsense ', []],
    ['limits set --', ['--json', '--stack', '--output', '--namespace', '--resource', '--tag']],
    ['limits set --json --o', ['--output']],
    ['limits set --json --j', []],
    ['limits set --tag a --t', ['--tag']],
    ['limits set --output ', ['table', 'json', 'csv']],
    ['limits set -o c', ['csv']],
    ['limits set --output=t', ['--output=table']],
    ['limits set --stack ', ['local']],
    ['limits set --json=', []],
    ['limits set --resource ', ['names: resource']],
    ['limits set --namespace=x', ['names: namespace']],
    ['limits resolve ', ['names: entity']],
    ['limits resolve --json user-1 ', ['names: resource']],
    ['limits resolve -s local user-1 ', ['names: resource']],
    ['limits resolve user-1 gpt-4 ', []],
    ['limits set rpm=1 ', []],
    ['entity show ', ['names: entity']],
    ['namespace create a ', ['names: namespace']],
    ['namespace purge ', ['names: deleted-namespace']],
    ['autocomplete z', ['zsh']],
    ['local up ', []],
    ['help limits s', ['set']],
    ['help nonsense ', []],
  ])('completes "zael %s" with %j', (line, expected) => {
    expect(words(line)).toEqual(expected)
  })

  it('passes the typed stack and namespace to a lookup', () => {
    const line = 'limits resolve --stack local -n tenant --endpoint-url=http://x us'
    expect(complete(COMMANDS, line.split(' '))).toEqual({
      kind: 'names',
      of: 'entity',
      prefix: '',
      typed: {stack: 'local', namespace: 'tenant', 'endpoint-url': 'http://x'},
    })
  })

  it('describes commands and flags', () => {
    expect(complete(COMMANDS, ['limits', 'se'])).toEqual({
      kind: 'words',
      candidates: [{value: 'set', description: 'Set limits'}],
    })
  })

  it('reads the manifest of the build', () => {
    const {commands} = JSON.parse(readFileSync(new URL('../../../oclif.manifest.json', import.meta.url), 'utf8'))
    expect(complete(commands, ['local', 'up', '--engine', 'dyno'])).toMatchObject({candidates: [{value: 'dynoxide'}]})
    expect(complete(commands, ['entity', 'show', ''])).toMatchObject({kind: 'names', of: 'entity'})
    expect(complete(commands, ['acquire', 'user-1', ''])).toMatchObject({kind: 'names', of: 'resource'})
  })
})
