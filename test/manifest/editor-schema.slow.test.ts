import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {Ajv} from 'ajv'
import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {InvalidInput} from '../../src/lib/core/errors.js'
import {parseManifest} from '../../src/lib/manifest/parse.js'
import type {Json} from '../../src/lib/schema/json-attribute.js'
import {ROOT, run} from '../e2e/zael.js'
import {anyManifest, write} from './arbitraries.js'

const schema = JSON.parse(readFileSync(new URL('../../templates/limits.schema.json', import.meta.url), 'utf8'))
const accepts = new Ajv({strict: true}).compile(schema)

function isParsed(value: Json): boolean {
  try {
    parseManifest(JSON.stringify(value), {file: 'f'})
    return true
  } catch (error) {
    if (error instanceof InvalidInput) return false
    throw error
  }
}

const withLimit = (limit: Json): Json => ({namespace: 'a', resources: {g: {limits: {rpm: limit}}}})
const withEntity = (entity: Json): Json => ({namespace: 'a', entities: {e: entity}})

/** Editors check files with the schema, zael with its parser: both must agree. */
describe('the schema for editors', () => {
  it('accepts every manifest that zael accepts', () => {
    fc.assert(
      fc.property(anyManifest, manifest => {
        expect(accepts(JSON.parse(write(manifest)))).toBe(true)
      }),
    )
  })

  it.each<[Json, boolean]>([
    [{namespace: 'a'}, true],
    [{}, false],
    [[], false],
    [{namespace: 'a b'}, false],
    [{namespace: 'a', resourcs: {}}, false],
    [{namespace: 'a', system: {}}, false],
    [{namespace: 'a', system: {on_unavailable: 'block'}}, true],
    [{namespace: 'a', system: {on_unavailable: 'alow'}}, false],
    [{namespace: 'a', resources: {g: {}}}, false],
    [{namespace: 'a', resources: {g: {limits: {}}}}, false],
    [{namespace: 'a', resources: {g: {disabled: true}}}, true],
    [{namespace: 'a', resources: {g: {disabled: 'bypass', cascade: null}}}, true],
    [{namespace: 'a', resources: {g: {cascade: false}}}, true],
    [{namespace: 'a', resources: {g: {cascade: null, limits: {rpm: 1}}}}, true],
    [{namespace: 'a', resources: {g: {disabled: null, cascade: null}}}, false],
    [{namespace: 'a', resources: {g: {disabled: 'yes'}}}, false],
    [{namespace: 'a', resources: {g: {cascade: 'bypass'}}}, false],
    [{namespace: 'a', system: {limits: {rpm: 1}, disabled: true}}, false],
    [withEntity({resources: {_default_: {disabled: false}}}), true],
    [{namespace: 'a', resources: {_default_: {limits: {rpm: 1}}}}, false],
    [{namespace: 'a', resources: {ttl: {limits: {rpm: 1}}}}, false],
    [{namespace: 'a', resources: {g: {limits: {wcu: 1}}}}, false],
    [{namespace: 'a', resources: {g: {limits: {window_start: 1}}}}, false],
    ...['100', '100/min', '1.5M/day:2M', '500/15min', '20/inflight', '2k/inflight', 7].map((limit): [Json, boolean] => [
      withLimit(limit),
      true,
    ]),
    ...['', '100/', '100/mn', 'x', '1/2/3', '1:2:3', 0, 1.5, true, null, []].map((limit): [Json, boolean] => [
      withLimit(limit),
      false,
    ]),
    [withLimit({capacity: 5, burst: 6, refill_amount: 7, refill_period: 8}), true],
    [withLimit('20/inflight:30'), false],
    [withLimit('20/2inflight'), false],
    [withLimit({burst: 6}), false],
    [withLimit({capacity: '5'}), false],
    [withLimit({capacity: 5, period: 3}), false],
    [withEntity({}), true],
    [withEntity({name: 'x', parent: null, cascade: true, metadata: {a: [1]}, resources: {}}), true],
    [withEntity({parent: 'a b'}), false],
    [withEntity({cascade: 'yes'}), false],
    [withEntity({metadata: [1]}), false],
    [withEntity({resources: {_default_: {limits: {rpm: 1}}}}), true],
    [withEntity({limit: {rpm: 1}}), false],
    [{namespace: 'a', entities: {'e#1': {}}}, false],
  ])('agrees with zael about %j: %s', (value, isValid) => {
    expect({schema: accepts(value), zael: isParsed(value)}).toEqual({schema: isValid, zael: isValid})
  })

  it('matches the one generated from the schema of manifests, and a stale one is refused', async () => {
    const check = (...args: string[]) =>
      run(process.execPath, ['--import', 'tsx', join(ROOT, '.ci', 'limits-schema.js'), ...args], {})
    expect(await check('--check')).toEqual({code: 0, stdout: '', stderr: ''})
    const folder = mkdtempSync(join(tmpdir(), 'zael-limits-schema-'))
    try {
      const stale = join(folder, 'limits.schema.json')
      writeFileSync(stale, JSON.stringify(schema).replace('wcu', ''))
      expect(await check('--check', stale)).toMatchObject({code: 1, stderr: expect.stringContaining('npm run build')})
      expect(await check(stale)).toMatchObject({code: 0})
      expect(JSON.parse(readFileSync(stale, 'utf8'))).toEqual(schema)
    } finally {
      rmSync(folder, {recursive: true})
    }
  })

  it('accepts the same names as zael', () => {
    const names = fc.oneof(
      fc.stringMatching(/^[a-zA-Z0-9_.:@/ -]{1,6}$/),
      fc.constantFrom('GSI4SK', 'LSI5SK', 'ttl', 'wcu', 'x'.repeat(65)),
    )
    fc.assert(
      fc.property(names, name => {
        const limits = {limits: {[name]: 1}}
        const each: Json[] = [
          {namespace: name},
          {namespace: 'a', resources: {[name]: {limits: {rpm: 1}}}},
          {namespace: 'a', system: limits},
          {namespace: 'a', entities: {[name]: {}}},
          {namespace: 'a', entities: {e: {resources: {[name]: {limits: {rpm: 1}}}}}},
        ]
        for (const value of each) expect([value, accepts(value)]).toEqual([value, isParsed(value)])
      }),
    )
  })
})
