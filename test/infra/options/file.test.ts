import {describe, expect, it} from 'vitest'
import {parseOptionFile} from '../../../src/lib/infra/options/file.js'
import {omitTags, parseRemovedTags, parseTags, stackTags} from '../../../src/lib/infra/options/tags.js'

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

  it('may be JSON, and may be empty', () => {
    expect(parseOptionFile('{"lambdaTimeout": 30}', 'a.json').options).toEqual({lambdaTimeout: 30})
    expect(parseOptionFile('', 'a.yaml')).toEqual({options: {}, tags: {}})
  })

  it.each([
    ['lambdaMemmory: 1', 'prod.yaml: there is no option "lambdaMemmory".'],
    ['lambdaMemory: lots', 'prod.yaml: lambdaMemory is "lots"; it must be a whole number from 128 to 10240 (MB).'],
    ['lambdaMemory: null', 'prod.yaml: lambdaMemory is "null"; it must be a whole number from 128 to 10240 (MB).'],
    ['- 1', 'prod.yaml: it does not consist of names and values.'],
    ['tags: [a]', 'prod.yaml: it does not consist of names and values.'],
    ['tags: {"aws:x": y}', 'prod.yaml: the tag "aws:x" has a key that begins with "aws:", which only AWS may use.'],
    ['tags: {a: {b: 1}}', 'prod.yaml: the tag "a" has a value that is not a text, a number, true or false.'],
    ['tags: {a: [b]}', 'prod.yaml: the tag "a" has a value that is not a text, a number, true or false.'],
    ['tags: {a: <b>}', 'prod.yaml: the tag "a" has characters that AWS does not allow.'],
    ['tags: {"": b}', 'prod.yaml: the tag "" has no key.'],
  ])('refuses %s', (text, message) => {
    expect(() => parseOptionFile(text, 'prod.yaml')).toThrow(expect.objectContaining({message, exitCode: 2}))
  })

  it('that is not YAML is refused in one line', () => {
    expect(() => parseOptionFile('a: [', 'prod.yaml')).toThrow(/^prod\.yaml: .+\.$/)
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
    expect(() => parseTags([text])).toThrow(expect.objectContaining({code: 'deploy.tag', exitCode: 2}))
  })

  it('are given once each, at most 45', () => {
    expect(() => parseTags(['a=1', 'a=2'])).toThrow('gives "a" twice')
    expect(() => parseTags(Array.from({length: 46}, (_, i) => `k${i}=v`))).toThrow('45 tags')
  })

  it('are removed by key', () => {
    expect(omitTags({team: 'a', cost: '7'}, parseRemovedTags(['team', 'absent'], {cost: '8'}))).toEqual({cost: '7'})
  })

  it.each(['ManagedBy', 'zael:name', 'team'])('cannot be removed: %s, while team is set', key => {
    const removing = () => parseRemovedTags([key], {team: 'a'})
    expect(removing).toThrow(expect.objectContaining({code: 'deploy.tag', exitCode: 2}))
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
