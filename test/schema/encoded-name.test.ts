import {readFileSync} from 'node:fs'
import {array, assert, constantFrom, oneof, property, string} from 'fast-check'
import {describe, expect, it} from 'vitest'
import {decodeName, encodeEntityId, shownName} from '../../src/lib/core/encoded-name.js'
import {checkEntityId, checkResourceName} from '../../src/lib/core/names.js'
import {shownText} from '../../src/lib/core/text/printable.js'
import {shellWord} from '../../src/lib/core/text/text.js'
import {encodeResourceName, hashKey, typedName} from '../../src/lib/schema/hashed-name.js'
import {runs} from '../helpers/runs.js'

/** Ids of many providers, most of them from LiteLLM's list: all shapes of it, and all ids that are not plain names. */
const MODELS = readFileSync(new URL('./fixtures/model-ids.txt', import.meta.url), 'utf8')
  .trim()
  .split('\n')

const PIECES = [
  'x--',
  'h--',
  '__',
  '_',
  '__40',
  '__u263a',
  '@',
  ':',
  '/',
  '#',
  '$',
  '_default_',
  '\n',
  '\ud800',
  '☺',
  'é',
]

/** Any text, with many pieces that mean something in encoded names. */
const anyText = array(oneof(constantFrom(...PIECES), string({unit: 'binary', maxLength: 3})), {maxLength: 12})
  .map(pieces => pieces.join(''))
  .filter(text => text !== '')

describe('encoded names', () => {
  it.each([
    ['user-1', 'user-1'],
    ['a@b.example', 'a@b.example'],
    ['2001:db8::1', '2001:db8::1'],
    ['::1', 'x--::1'],
    ['fe80::1%eth0', 'x--fe80::1__25eth0'],
    ['[::1]:8080', 'x--__5b::1__5d:8080'],
    ['auth0|123', 'x--auth0__7c123'],
    ['a__b c', 'x--a__5f_b__20c'],
    ['日', 'x--__u65e5'],
    ['$SYSTEM', 'x--__24SYSTEM'],
    ['#', 'x--__23'],
    ['x--::1', 'x--x--::1'],
    ['h--1', 'x--h--1'],
  ])('has %j as entity %s', (text, id) => {
    expect(encodeEntityId(text)).toBe(id)
    expect(decodeName(id)).toBe(text)
  })

  it.each([
    ['gpt-4', 'gpt-4'],
    ['llama3:8b', 'llama3:8b'],
    ['01-ai/Yi-34B', 'x--01-ai/Yi-34B'],
    ['@cf/meta/llama', 'x--__40cf/meta/llama'],
    ['claude-3-5-sonnet@20240620', 'x--claude-3-5-sonnet__4020240620'],
    ['_default_', 'x--_default_'],
    ['PK', 'x--PK'],
    ['x--PK', 'x--x--PK'],
  ])('has %j as resource %s', (text, name) => {
    expect(encodeResourceName(text)).toBe(name)
    expect(decodeName(name)).toBe(text)
  })

  it('is valid, reversible and unique for any text', () => {
    const [entities, resources] = [new Map<string, string>(), new Map<string, string>()]
    void assert(
      property(anyText, text => {
        const [id, name] = [encodeEntityId(text.slice(0, 36)), encodeResourceName(text)]
        expect(checkEntityId(id)).toBe(id)
        expect(checkResourceName(name)).toBe(name)
        expect(decodeName(id)).toBe(text.slice(0, 36))
        if (!name.startsWith('h--')) expect(decodeName(name)).toBe(text)
        expect(entities.get(id) ?? text.slice(0, 36)).toBe(text.slice(0, 36))
        expect(resources.get(name) ?? text).toBe(text)
        entities.set(id, text.slice(0, 36))
        resources.set(name, text)
      }),
      {numRuns: runs(2000)},
    )
  })

  it.each([
    ['an overlong name', `a${'b'.repeat(64)}`],
    ['a name that is too long when encoded', `@${'b'.repeat(60)}`],
    ['lone surrogates', '\ud800'.repeat(70)],
    ['a long text', '@'.repeat(1e6)],
  ])('hashes %s of a resource, and keeps its end', (_, text) => {
    const name = encodeResourceName(text)
    expect(checkResourceName(name)).toMatch(/^h--[\w-]{22}-/)
    expect(name).toHaveLength(64)
    expect(name.at(-1)).toBe(/\w/.test(text.at(-1) ?? '') ? text.at(-1) : '_')
    expect(decodeName(name)).toBe(name)
    expect(encodeResourceName(name)).not.toBe(name)
    expect(encodeResourceName(`${text.slice(0, -1)}\ud801`)).not.toBe(name)
  })

  it('refuses empty and overlong entities, and values that are not strings', () => {
    for (const bad of ['', 'a'.repeat(257), '#'.repeat(70), undefined, null, 7, {}, ['a']] as string[])
      expect(() => encodeEntityId(bad)).toThrow(/is not a valid entity id/)
    for (const bad of ['', undefined, null, 7, {}] as string[])
      expect(() => encodeResourceName(bad)).toThrow(/is not a valid resource name/)
  })

  it('does not decode names that are not encodings', () => {
    for (const name of ['x--user-1', 'x--a__zz', 'x--a__5fb', 'x--a__41', 'x--', 'h--x--::1', 'user-x--::1'])
      expect(decodeName(name)).toBe(name)
  })

  it('is valid, unique and reversible for the ids of many models', () => {
    const names = MODELS.map(model => encodeResourceName(model))
    expect(new Set(names).size).toBe(new Set(MODELS).size)
    for (const [at, name] of names.entries()) {
      const model = MODELS[at] as string
      expect(checkResourceName(name)).toBe(name)
      if (name.startsWith('h--')) expect(model.length, model).toBeGreaterThan(58)
      else expect(decodeName(name)).toBe(model)
      // A model can also be (part of) an entity id.
      expect(decodeName(encodeEntityId(model))).toBe(model)
    }
  })
})

describe('shown names', () => {
  it.each([
    ['x--::1', '::1'],
    ['x--fe80::1__25eth0', 'fe80::1%eth0'],
    ['x--claude-3-5-sonnet__4020240620', 'claude-3-5-sonnet@20240620'],
    ['x--auth0__7c123', 'auth0|123'],
    ['x--__u65e5', '日'],
  ])('shows %s as %s, alone and in a sentence', (name, text) => {
    expect(shownName(name)).toBe(text)
    expect(shownText(`resource ${name}: "${name}" (${name}), ${name}.`)).toBe(
      `resource ${text}: "${text}" (${text}), ${text}.`,
    )
  })

  it.each([
    ['several words', 'user 1'],
    ['a flag', '--all'],
    ['a reserved name', '_default_'],
    ['the system in audit events', '$SYSTEM'],
    ['a control character', 'a\u001b[31m'],
    ['a direction override', 'a\u202e'],
    ['a quote', `a'b`],
    ['a list', 'a,b'],
    ['another encoded name', 'x--::1'],
  ])('shows %s as stored', (_, text) => {
    for (const name of [encodeEntityId(text), encodeResourceName(text)]) {
      if (name === text) continue
      expect(shownName(name)).toBe(name)
      expect(shownText(`entity ${name} for`)).toBe(`entity ${name} for`)
    }
  })

  it('does not show parts of longer words', () => {
    for (const text of ['ns/ENTITY#x--::1', '`x--::1`', '@x--::1', 'user-x--::1', 'x--user-1'])
      expect(shownText(text)).toBe(text)
  })

  it('quotes shown names in commands', () => {
    expect(['x--::1', 'x--auth0__7c123', 'x--a__20b'].map(shellWord)).toEqual(['::1', "'auth0|123'", 'x--a__20b'])
  })

  it('accepts stored and shown names alike, and no others', () => {
    void assert(
      property(anyText, text => {
        for (const [kind, name] of [
          ['entity', encodeEntityId(text.slice(0, 36))],
          ['resource', encodeResourceName(text)],
        ] as const) {
          expect(typedName(kind, name)).toBe(name)
          expect(typedName(kind, shownName(name))).toBe(name)
          expect(shownText(shownText(name))).toBe(shownText(name))
        }
      }),
      {numRuns: runs(2000)},
    )
    for (const name of ['user 1', '', '_default_', '$SYSTEM', 'a#b']) expect(typedName('resource', name)).toBe(name)
  })
})

describe('hashKey', () => {
  it('is a short, valid and stable id, and empty without a key', () => {
    expect(hashKey('sk-secret')).toBe('key-dGtK0cqRKeHK8IC_lAbUNT')
    expect(checkEntityId(hashKey('sk-秘密'))).toHaveLength(26)
    expect(hashKey('a')).not.toBe(hashKey('b'))
    expect([hashKey(''), hashKey(undefined), hashKey(null), hashKey(['a', 'b'])]).toEqual(['', '', '', ''])
  })
})
