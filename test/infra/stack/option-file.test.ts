import {describe, expect, it} from 'vitest'
import type {InvalidInput} from '../../../src/lib/core/errors.js'
import {parseOptionFile} from '../../../src/lib/infra/stack/option-file.js'
import {omitTags, parseRemovedTags, parseTags, stackTags} from '../../../src/lib/infra/stack/tags.js'

describe('an option file', () => {
  it('contains options by name, and tags', () => {
    const text =
      'lambdaMemory: 1024\nauditArchive: false\nusageWindows: [daily, hourly]\nalarmTopic: null\ntags: {team: a, cost: 7}\n'
    expect(parseOptionFile(text, 'prod.yaml')).toEqual({
      options: {lambdaMemory: 1024, auditArchive: false, usageWindows: ['hourly', 'daily'], alarmTopic: null},
      tags: {team: 'a', cost: '7'},
    })
  })

  it('may have tags without a value, and an equals sign in a key', () => {
    expect(parseOptionFile('tags: {empty: null, on: true, "a=b": c}', 'a.yaml').tags).toEqual({
      empty: '',
      on: 'true',
      'a=b': 'c',
    })
  })

  it('may be JSON, and may have no options', () => {
    expect(parseOptionFile('{"lambdaTimeout": 30, "pitrDays": null}', 'a.json').options).toEqual({
      lambdaTimeout: 30,
      pitrDays: null,
    })
    expect(parseOptionFile('{}', 'a.yaml')).toEqual({options: {}, tags: {}})
  })

  it.each([
    ['lambdaMemmory: 1', '1:1: unknown option "lambdaMemmory". Did you mean "lambdaMemory"?'],
    ['\n  __proto__: 1', '2:3: unknown option "__proto__".'],
    ['constructor: 1', '1:1: unknown option "constructor".'],
    ['tag: {a: b}', '1:1: unknown option "tag". Did you mean "tags"?'],
    ['lambdaMemory: lots', '1:15: lambdaMemory is "lots"; it must be a whole number from 128 to 10240 (MB).'],
    ['lambdaMemory: null', '1:15: lambdaMemory is "null"; it must be a whole number from 128 to 10240 (MB).'],
    ['lambdaMemory: 1e400', '1:15: lambdaMemory is "Infinity"; it must be a whole number from 128 to 10240 (MB).'],
    ['lambdaMemory: 99999999999999999999', '1:15: lambdaMemory is "100000000000000000000"; it must be a whole'],
    ['lambdaMemory: {a: 1}', '1:15: lambdaMemory is "{"a":1}"; it must be a whole number'],
    ['usageWindows: [hourly, weekly]', '1:15: usageWindows is "["hourly","weekly"]"; it must be some of hourly,'],
    [`alarmTopic: ${'x'.repeat(500)}`, `1:13: alarmTopic is "${'x'.repeat(60)}…"; it must be the ARN of an SNS topic.`],
    ['- 1', '1:1: it must contain names and values.'],
    ['"lambdaMemory"', '1:1: it must contain names and values.'],
    ['', '1:1: it is empty.'],
    ['# nothing yet\n', '1:1: it is empty.'],
    ['tags: [a]', '1:7: tags are names and values, such as "team: platform".'],
    ['tags:\n  "aws:x": y', '2:3: the tag "aws:x" has a key that begins with "aws:", which only AWS may use.'],
    ['tags: {a: {b: 1}}', '1:8: the tag "a" has a value that is not a text, a number, true or false.'],
    ['tags: {a: [b]}', '1:8: the tag "a" has a value that is not a text, a number, true or false.'],
    ['tags: {a: <b>}', '1:8: the tag "a" has characters that AWS does not allow.'],
    ['tags: {"": b}', '1:8: the tag "" has no key.'],
    ['tracing: true\ntracing: false', '2:1: Map keys must be unique.'],
    ['{"tracing": true, "tracing": false}', '1:19: Map keys must be unique.'],
    ['{"lambdaMemory": 1024', '1:22: Flow map'],
    ['tracing: true\n---\ntracing: false', '2:1: Source contains multiple documents'],
  ])('refuses %j', (text, message) => {
    expect(() => parseOptionFile(text, 'prod.yaml')).toThrow(
      expect.objectContaining({
        message: expect.stringContaining(`prod.yaml:${message}`),
        code: 'deploy.file',
        kind: 'usage',
      }),
    )
  })

  it('is refused with all its problems at once, in the order of the lines', () => {
    const text = 'lambdaMemory: lots\ntracing: maybe\ncolour: red\ntags:\n  ok: fine\n  "aws:x": y\n  zael:name: z\n'
    expect(() => parseOptionFile(text, 'prod.yaml')).toThrow(
      expect.objectContaining({
        message: [
          'prod.yaml:1:15: lambdaMemory is "lots"; it must be a whole number from 128 to 10240 (MB).',
          'prod.yaml:2:10: tracing is "maybe"; it must be true or false.',
          'prod.yaml:3:1: unknown option "colour".',
          'prod.yaml:6:3: the tag "aws:x" has a key that begins with "aws:", which only AWS may use.',
          'prod.yaml:7:3: the tag "zael:name" has a key that zael sets itself.',
        ].join('\n'),
      }),
    )
  })

  it('ignores aliases that expand without limit', () => {
    const bomb = `a: &a [x,x,x,x,x,x,x,x,x]\n${'bcdefgh'
      .split('')
      .map((name, at) => `${name}: &${name} [${Array(9).fill(`*${'abcdefg'[at]}`).join(',')}]`)
      .join('\n')}`
    expect(() => parseOptionFile(bomb, 'prod.yaml')).toThrow(/^prod\.yaml:1:1: Excessive alias count/)
  })

  it('never repeats values of unknown options, or names that may be secrets', () => {
    const text = 'password: hunter2\n"AKIA+hidden/key": 1\ntags: {"aws:a": hidden}\n'
    let refusal: unknown
    try {
      parseOptionFile(text, 'prod.yaml')
    } catch (error) {
      refusal = error
    }
    expect(refusal).toMatchObject({message: expect.stringContaining('unknown option "password"')})
    const {message, hint, details} = refusal as InvalidInput
    expect(JSON.stringify({message, hint, details})).not.toMatch(/hunter2|hidden/)
  })

  it('keeps a tag named like a property of every object', () => {
    const {tags} = parseOptionFile('tags: {__proto__: a, constructor: b}', 'a.yaml')
    expect(Object.entries(tags)).toEqual([
      ['__proto__', 'a'],
      ['constructor', 'b'],
    ])
  })
})

describe('tags', () => {
  it('are KEY=VALUE; the value may contain an equals sign, or be empty', () => {
    expect(parseTags(['team=a', 'query=x=y', 'empty='])).toEqual({team: 'a', query: 'x=y', empty: ''})
  })

  it.each([
    'team',
    '=a',
    'AWS:x=y',
    'ManagedBy=me',
    'zael:type=x',
    `${'k'.repeat(129)}=v`,
    `k=${'v'.repeat(257)}`,
    'k=<b>',
  ])('refuses %s', text => {
    expect(() => parseTags([text])).toThrow(expect.objectContaining({code: 'deploy.tag', kind: 'usage'}))
  })

  it('are refused with all their problems at once', () => {
    expect(() => parseTags(['aws:a=1', 'ok=2', 'ManagedBy=me'])).toThrow(
      '--tag "aws:a=1" has a key that begins with "aws:", which only AWS may use.\n--tag "ManagedBy=me" has a key',
    )
  })

  it('are given once each, at most 45', () => {
    expect(() => parseTags(['a=1', 'a=2'])).toThrow('gives "a" twice')
    expect(() => parseTags(Array.from({length: 46}, (_, i) => `k${i}=v`))).toThrow('45 user tags')
  })

  it('are removed by key', () => {
    expect(omitTags({team: 'a', cost: '7'}, parseRemovedTags(['team', 'absent'], {cost: '8'}))).toEqual({cost: '7'})
  })

  it.each(['ManagedBy', 'zael:name', 'team'])('cannot be removed: %s, while team is set', key => {
    const removing = () => parseRemovedTags([key], {team: 'a'})
    expect(removing).toThrow(expect.objectContaining({code: 'deploy.tag', kind: 'usage'}))
  })

  it('of zael take precedence over those of the user', () => {
    expect(stackTags('prod', '1.2.3', {team: 'a', ManagedBy: 'terraform'})).toEqual({
      team: 'a',
      ManagedBy: 'zael',
      'zael:name': 'prod',
      'zael:type': 'limiter',
      'zael:version': '1.2.3',
      'zael:schema-version': '0.9.0',
    })
  })
})
