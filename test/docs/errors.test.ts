import {readFileSync} from 'node:fs'
import {join} from 'node:path'
import {describe, expect, it} from 'vitest'
import {EXIT} from '../../src/lib/cli/output/exit.js'
import type {ErrorKind} from '../../src/lib/core/errors.js'
import {ROOT} from '../helpers/run-command.js'
import {readSources} from '../helpers/sources.js'

const WORD = '[a-z][a-z0-9]*(?:-[a-z0-9]+)*'
const DOTTED = new RegExp(`(['"\`])(${WORD}(?:\\.${WORD})+)\\1`, 'g')

/** Dotted texts in `src` that are not error codes: files, hosts, runtimes, names of metrics and of events. */
const NOT_CODES = [
  /\.(?:db|disposable|dll|dylib|exe|json|lock|log|mjs|so|ts|x|yaml|zip)$/,
  /\.amazonaws\.com$/,
  /^zael\./,
  /^response\.(?:completed|failed|incomplete)$/,
  /^vercel\.ai\.error$/,
]
const IS_CODE_DESPITE = new Set(['output.yaml'])

/** Codes that `src` puts together, by the template. */
const TEMPLATES: Readonly<Record<string, readonly string[]>> = {
  '`${source}.parent-missing`': ['import.parent-missing', 'manifest.parent-missing'],
  '`${source}.too-large`': ['import.too-large', 'manifest.too-large'],
  '`output.${format}`': ['output.csv', 'output.json', 'output.jsonl', 'output.yaml'],
  '`${this.ctor.id}.interrupted`': ['deploy.interrupted', 'delete.interrupted'],
}

const code = readSources()
  .map(({text}) => text.replace(/^\s*(?:\/\/|\/\*|\*).*$/gm, ''))
  .join('\n')

function codesOfSource(): string[] {
  const literals = [...code.matchAll(DOTTED)].map(([, , text = '']) => text)
  const codes = literals.filter(text => IS_CODE_DESPITE.has(text) || !NOT_CODES.some(pattern => pattern.test(text)))
  return [...new Set([...codes, ...Object.values(TEMPLATES).flat(), 'bug'])].sort()
}

/** Exit codes by error code, where a constructor states the kind beside the code. */
function exitsOfSource(): Map<string, Set<number>> {
  const exits = new Map<string, Set<number>>()
  const add = (name: string, exit: number) => exits.set(name, (exits.get(name) ?? new Set()).add(exit))
  for (const [, name = ''] of code.matchAll(/new InvalidInput\(\s*'([\w.-]+)'/g)) add(name, EXIT.usage)
  const kinds = Object.keys(EXIT).join('|')
  const stated = new RegExp(`\\b(?:new ZaelError|super|failed)\\(\\s*'(${kinds})',\\s*'([\\w.-]+)'`, 'g')
  for (const [, kind, name = ''] of code.matchAll(stated)) add(name, EXIT[kind as ErrorKind])
  return exits
}

const rows = [
  ...readFileSync(join(ROOT, 'docs/errors.md'), 'utf8').matchAll(/^\| `(.+?)` \| (.+?) \| (.+) \| (.+) \|$/gm),
]
const documented = rows.map(([, name = '']) => name)

describe('docs/errors.md', () => {
  it('lists exactly the error codes of src, once each', () => {
    expect(documented.length).toBeGreaterThan(200)
    expect(documented.toSorted()).toEqual(codesOfSource())
  })

  it('has the exit codes of src', () => {
    const exits = exitsOfSource()
    expect(exits.size).toBeGreaterThan(200)
    const wrong = rows.flatMap(([, name = '', listed = '']) => {
      const missing = [...(exits.get(name) ?? [])].filter(exit => !listed.split(', ').includes(String(exit)))
      return missing.length === 0 ? [] : `${name}: ${missing}`
    })
    expect(wrong).toEqual([])
  })

  it('covers every template that src builds a code from', () => {
    const made = /(?:new (?:InvalidInput|ZaelError)|nothingChanged)\([^()`]*?(`[^` ]*\$\{[^`]*`)/g
    const templates = [...code.matchAll(made)].map(([, template = '']) => template).filter(text => !/ |\.`$/.test(text))
    expect([...new Set(templates)].toSorted()).toEqual(Object.keys(TEMPLATES).toSorted())
  })
})
