import fc from 'fast-check'
import {expect, it} from 'vitest'
import {parseManifest} from '../../src/lib/manifest/parse.js'
import {planManifest} from '../../src/lib/manifest/plan.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {anyManifest, write} from './arbitraries.js'
import {apply, exportManifest, manifestOf, newNamespace} from './support.js'

const RUNS = process.env.ZAEL_TEST_SIZE === 'full' ? 300 : 25

describeOnBoth('any manifest', {timeout: 300_000}, (table, extent) => {
  it('reads back from its text, is complete after one run, and survives export and import', async () => {
    await fc.assert(
      fc.asyncProperty(anyManifest, anyManifest, async (first, second) => {
        const {repository} = newNamespace(table)
        for (const expected of [first, second]) {
          const manifest = parseManifest(write(expected), {file: 'f'})
          expect(manifest).toEqual(expected)
          expect(await apply(repository, manifest)).toMatchObject({outcome: 'complete', failures: [], left: 0})
          expect(await planManifest(repository, manifest)).toMatchObject({changes: [], counts: {adopt: 0}})
        }
        const exported = await exportManifest(repository, 'test')
        const imported = parseManifest(exported, {file: 'exported'})
        const again = await planManifest(repository, imported)
        expect(again).toMatchObject({changes: [], counts: {adopt: 0}})

        // Applied to an empty namespace and exported again, it gives the same text.
        const copy = newNamespace(table).repository
        await apply(copy, imported)
        expect(await exportManifest(copy, 'test')).toBe(exported)
      }),
      {numRuns: extent === 'all' ? RUNS : Math.ceil(RUNS / 8)},
    )
  })
})

describeOnEngine('a manifest', () => {
  const table = useTable()

  it('may use names of built-in object properties, also in metadata', async () => {
    const {repository} = newNamespace(table)
    const text = `
resources: {constructor: {limits: {toString: 5/min}}}
entities:
  valueOf: {name: valueOf, limits: {constructor: 1/min}}
  hasOwnProperty: {parent: valueOf, metadata: {__proto__: {x: 1}, constructor: [2]}}`
    expect(await apply(repository, text)).toMatchObject({outcome: 'complete', failures: [], created: 4})
    expect(await planManifest(repository, manifestOf(text))).toMatchObject({changes: []})
    const exported = parseManifest(await exportManifest(repository, 'test'), {file: 'exported'})
    expect(exported).toEqual(manifestOf(text))
    expect(Object.keys(exported.entities.get('hasOwnProperty')?.metadata ?? {}).sort()).toEqual([
      '__proto__',
      'constructor',
    ])
  })
})
