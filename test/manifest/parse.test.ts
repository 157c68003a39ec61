import {describe, expect, it} from 'vitest'
import {InvalidInput} from '../../src/lib/core/errors.js'
import {parseLimit} from '../../src/lib/core/limits/limit-text.js'
import type {Problem} from '../../src/lib/files/document-problems.js'
import {parseManifest} from '../../src/lib/manifest/parse.js'

/** Position and message of every problem, in order. */
function problemsOf(text: string): string[] {
  return failureOf(text).problems.map(({line, column, path, message}) => `${line}:${column} [${path}] ${message}`)
}

function failureOf(text: string): {error: InvalidInput; problems: Problem[]} {
  try {
    parseManifest(text, {file: 'limits.yaml'})
  } catch (error) {
    if (error instanceof InvalidInput) return {error, problems: error.details.problems as Problem[]}
    throw error
  }
  throw new Error('expected a failure')
}

const parse = (text: string) => parseManifest(`namespace: default\n${text}`, {file: 'limits.yaml'})
const limits = (...texts: string[]) => texts.map(parseLimit)

const scope = (...texts: string[]) => ({limits: limits(...texts), policies: {}})

describe('a manifest', () => {
  it('states the system, resources, and entities with parents', () => {
    const manifest = parse(`
system:
  on_unavailable: allow
  limits: {tpm: 100k/min:200k, rpm: 100}
resources:
  gpt-4: {limits: {rpm: 10/sec:50}}
  vendor/model.v2: {limits: {rpd: 1M/day}}
entities:
  org-1:
    limits: {rpm: 5k/min}
  user@example.com:
    name: A user
    parent: org-1
    cascade: true
    metadata: {tier: gold, seats: 3, tags: [a, b], note: null, nested: {deep: false}}
    resources: {gpt-4: {limits: {rpm: 3/min}}}
  loner: {parent: null}`)
    expect(manifest).toEqual({
      namespace: 'default',
      system: {limits: limits('rpm=100/min', 'tpm=100k/min:200k'), onUnavailable: 'allow'},
      resources: new Map([
        ['gpt-4', scope('rpm=10/sec:50')],
        ['vendor/model.v2', scope('rpd=1M/day')],
      ]),
      entities: new Map<string, object>([
        ['org-1', {scopes: new Map([['_default_', scope('rpm=5k/min')]])}],
        [
          'user@example.com',
          {
            name: 'A user',
            parent: 'org-1',
            cascade: true,
            metadata: {tier: 'gold', seats: 3, tags: ['a', 'b'], note: null, nested: {deep: false}},
            scopes: new Map([['gpt-4', scope('rpm=3/min')]]),
          },
        ],
        ['loner', {parent: null, scopes: new Map()}],
      ]),
    })
  })

  it('can be JSON, indented with tabs too', () => {
    const json = JSON.stringify({namespace: 'x', resources: {g: {limits: {rpm: '5/min'}}}}, undefined, '\t')
    expect(parseManifest(json, {file: 'f'}).resources).toEqual(new Map([['g', scope('rpm=5/min')]]))
  })

  it.each([
    ['{capacity: 100}', 'rpm=100/min'],
    ['{capacity: 100, refill_amount: 10}', 'rpm=10/min:100'],
    ['{capacity: 100, refill_period: 3600}', 'rpm=100/hour'],
    // Burst replaces the capacity everywhere, also as the default of the refill.
    ['{capacity: 100, burst: 250}', 'rpm=250/min'],
    ['{capacity: 100, burst: 250, refill_amount: 100}', 'rpm=100/min:250'],
    ['{capacity: 1_000_000, refill_amount: 1_000}', 'rpm=1000/min:1M'],
  ])('accepts a limit in the syntax of the Python system: %s', (text, limit) => {
    expect(parse(`resources: {g: {limits: {rpm: ${text}}}}`).resources.get('g')).toEqual(scope(limit))
  })

  it('keeps names as written, whatever type YAML would give them', () => {
    const {entities} = parse('entities: {007: {parent: 1e3}, 1e3: {name: 12}, true: {cascade: false}}')
    expect([...entities.keys()]).toEqual(['007', '1e3', 'true'])
    expect(entities.get('007')).toMatchObject({parent: '1e3'})
    expect(entities.get('1e3')).toMatchObject({name: '12'})
  })

  it('may use aliases and merges, and prefers explicit keys over merged ones', () => {
    const {resources} = parse(`
resources:
  a: &a
    limits: &l {rpm: 1/min, tpm: 2/min}
  b: *a
  c: {limits: {<<: *l, rpm: 9/min}}
  d: {limits: {<<: [{rpm: 4/min}, *l]}}`)
    expect(resources.get('b')).toEqual(scope('rpm=1/min', 'tpm=2/min'))
    expect(resources.get('c')).toEqual(scope('rpm=9/min', 'tpm=2/min'))
    expect(resources.get('d')).toEqual(scope('rpm=4/min', 'tpm=2/min'))
  })

  it('may have no limits, and empty sections', () => {
    const nothing = {namespace: 'default', system: undefined, resources: new Map(), entities: new Map()}
    expect(parse('')).toEqual(nothing)
    expect(parse('resources: {}\nentities: {}')).toEqual(nothing)
    expect(parse('entities: {a: {resources: {}}}').entities).toEqual(new Map([['a', {scopes: new Map()}]]))
    expect(parse('system: {on_unavailable: block, limits: {}}').system).toEqual({limits: [], onUnavailable: 'block'})
  })
})

describe('an invalid manifest', () => {
  it('is rejected with all problems in one error: position, problem, and a suggestion', () => {
    const text = `namespce: default
system:
  on_unavailable: alow
  limits:
    rpm: 100/mn
    rpm: 3
resources:
  gpt-4: {limts: {rpm: 3}}
entities:
  user-1: {parant: org}
`
    const {error} = failureOf(text)
    expect(error).toMatchObject({code: 'manifest.invalid', kind: 'usage'})
    expect(error.message).toBe(`The manifest has 7 problems:
  limits.yaml:1:1 "namespce" is not a key here; did you mean "namespace"?
  limits.yaml:1:1 the key "namespace" is missing; it names the namespace of this file
  limits.yaml:3:19 system.on_unavailable: "alow" is not a policy; did you mean "allow"?
  limits.yaml:5:14 system.limits.rpm: the period "mn" is not one of sec, min, hour, day, with an optional count (did you mean min?); write RATE[/PERIOD][:BURST], such as 100k/min:200k
  limits.yaml:6:5 system.limits: "rpm" is given twice
  limits.yaml:8:11 resources.gpt-4: "limts" is not a key here; did you mean "limits"?
  limits.yaml:10:12 entities.user-1: "parant" is not a key here; did you mean "parent"?`)
  })

  it.each([
    ['', ['1:1 [] the file is empty; it needs at least "namespace"']],
    ['- a', ['1:1 [] a manifest must be a mapping, not a list']],
    ['namespace: a\n---\nnamespace: b', ['2:1 [] a second document begins here; a file is for one namespace']],
    ['namespace: *x', ['1:12 [] the anchor &x is not defined before this alias']],
    ['namespace: !x a', ['1:12 [] Unresolved tag: !x']],
    ['namespace: a/b', [expect.stringContaining('1:12 [namespace] "a/b" is not a valid namespace name')]],
    ['namespace: a\nx y: 1', ['2:1 [] "x y" is not a key here; allowed: namespace, system, resources, entities']],
    ['namespace: a\nsystem: {}', [expect.stringContaining('2:9 [system] the section is empty')]],
    ['namespace: a\nresources: {g: }', ['2:16 [resources.g] this must be a mapping, not empty']],
    [
      'namespace: a\nresources: {g: {limits: {}}}',
      [expect.stringContaining('2:25 [resources.g.limits] no limits are given')],
    ],
    ['namespace: a\nresources: {g: {}}', ['2:16 [resources.g] no limits are given; add "limits"']],
    ['namespace: a\nresources: {_default_: {limits: {a: 1}}}', [expect.stringContaining('not a valid resource name')]],
    [
      'namespace: a\nentities: {"a b": {}}',
      [expect.stringContaining('2:12 [entities] "a b" is not a valid entity id')],
    ],
    ['namespace: a\nentities: {a: {name: [x]}}', ['2:22 [entities.a.name] must be text, not a list']],
    [
      'namespace: a\nentities: {a: {cascade: yes}}',
      [expect.stringContaining('must be true or false, not the text "yes"')],
    ],
    ['namespace: a\nentities: {a: {parent: a}}', ['2:24 [entities.a.parent] the parents form a cycle: a → a']],
    ['namespace: a\nentities: {? [x] : {}}', ['2:14 [entities] a key must be a name, not a list']],
    ['namespace: a\nresources: &r {<<: *r}', ['2:20 [] the alias *r refers to itself']],
    [
      'namespace: a\nentities: {a: {limits: {r: 1}, resources: {_default_: {limits: {r: 1}}}}}',
      [expect.stringContaining('[entities.a.resources._default_] "limits" of the entity already sets _default_')],
    ],
  ])('is rejected: %j', (text, expected) => {
    expect(problemsOf(text)).toEqual(expected)
  })

  it.each([
    ['100', undefined],
    [
      '{capacity: 010}',
      '32 [resources.g.limits.rpm.capacity] 010 may be read as an octal number; write it without the leading zero',
    ],
    [
      '{capacity: "5"}',
      '32 [resources.g.limits.rpm.capacity] must be a whole number from 1 to 9007199254740, not the text "5"',
    ],
    ['{capacity: 0}', '32 [resources.g.limits.rpm.capacity] must be a whole number from 1 to 9007199254740, not 0'],
    ['{capacity: 1.5}', '32 [resources.g.limits.rpm.capacity] must be a whole number from 1 to 9007199254740, not 1.5'],
    [
      '{capacity: 1, refill_period: 1000000001}',
      '50 [resources.g.limits.rpm.refill_period] must be a whole number from 1 to 1000000000, not 1000000001',
    ],
    ['{burst: 5}', '21 [resources.g.limits.rpm] the capacity is missing'],
    [
      '{capacity: 5, refil_amount: 3}',
      '35 [resources.g.limits.rpm] "refil_amount" is not a key here; did you mean "refill_amount"?',
    ],
    ['[]', '21 [resources.g.limits.rpm] must be a rate such as 100/min or a mapping with capacity, not a list'],
    [
      '10/min:x',
      '28 [resources.g.limits.rpm] the burst "x" is not a number such as 500, 20k, 1.5M or $12.50; write RATE[/PERIOD][:BURST], such as 100k/min:200k',
    ],
    // The rest of $500/month@UTC in a here-document.
    [
      '00/month@UTC',
      "21 [resources.g.limits.rpm] the rate must be more than 0; write RATE[/PERIOD][:BURST], such as 100k/min:200k; if a shell wrote this file, quote the end mark: <<'EOF'",
    ],
  ])('is rejected for a limit: %s', (text, problem) => {
    const whole = `namespace: a\nresources:\n  g:\n    limits:\n      rpm:          ${text}`
    if (problem === undefined) expect(parseManifest(whole, {file: 'f'}).resources.size).toBe(1)
    else expect(problemsOf(whole)).toEqual([`5:${problem}`])
  })

  it.each(['.nan', '.inf', '12345678901234567890', '1e300'])(
    'is rejected for metadata that no record can store: %s',
    value => {
      expect(problemsOf(`namespace: a\nentities: {a: {metadata: {x: [${value}]}}}`)).toEqual([
        expect.stringContaining('2:31 [entities.a.metadata.x.0]'),
      ])
    },
  )

  it('is rejected for an empty metadata key, which the table cannot store', () => {
    expect(problemsOf('namespace: a\nentities: {a: {metadata: {x: {"": 1}}}}')).toEqual([
      '2:31 [entities.a.metadata.x] a metadata key cannot be empty: DynamoDB does not allow it',
    ])
  })

  it('reports each cycle of parents once', () => {
    const text =
      'namespace: a\nentities:\n  x: {parent: a}\n  a: {parent: b}\n  b: {parent: c}\n  c: {parent: a}\n  d: {parent: d}'
    expect(problemsOf(text)).toEqual([
      '4:15 [entities.a.parent] the parents form a cycle: a → b → c → a',
      '7:15 [entities.d.parent] the parents form a cycle: d → d',
    ])
  })

  it('cannot expand without limit by aliases', () => {
    const bomb = ['&a0 [1, 1]', ...Array.from({length: 40}, (_, at) => `&a${at + 1} [*a${at}, *a${at}]`)]
    const lines = bomb.map((line, at) => `      k${at}: ${line}`).join('\n')
    expect(problemsOf(`namespace: a\nentities:\n  e:\n    metadata:\n${lines}`)).toEqual([
      '23:17 [] this has more than 1,000,000 values after expanding aliases',
    ])
    const large = bomb.slice(0, 11)
    const fewer = large.map((line, at) => `      k${at}: ${line}`).join('\n')
    expect(problemsOf(`namespace: a\nentities:\n  e:\n    metadata:\n${fewer}`)).toEqual([
      expect.stringContaining('5:7 [entities.e.metadata] an entity cannot have more metadata than'),
    ])
    const itself = 'namespace: a\nentities: {e: {metadata: &m {x: *m}}}'
    expect(problemsOf(itself)).toEqual(['2:33 [] the alias *m refers to itself'])
  })
})
