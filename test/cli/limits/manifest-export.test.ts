import {afterEach, beforeAll, beforeEach, expect, it, vi} from 'vitest'
import {printManifest} from '../../../src/lib/cli/limits/manifest-file.js'
import {OUTPUT_FORMATS, type OutputFormat} from '../../../src/lib/cli/output/output-format.js'
import {parseManifest} from '../../../src/lib/manifest/parse.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'
import {exportForm, exportManifest, newNamespace} from '../../manifest/support.js'
import {entityConfigItem, entityItem, putAll} from '../../repository/namespace-items.js'

// Two steps of reading, and more text than is written at a time.
const ENTITIES = 450
const FORMATS = OUTPUT_FORMATS.filter(format => ['table', 'json', 'yaml'].includes(format))

describeOnEngine('a manifest that is printed while it is read', () => {
  const table = useTable()
  let written = ''

  beforeEach(() => {
    written = ''
    vi.spyOn(process.stdout, 'write').mockImplementation(text => {
      written += String(text)
      return true
    })
  })
  afterEach(() => vi.restoreAllMocks())

  const {tenant, repository} = newNamespace(table)
  const print = (format: OutputFormat, onBegin = () => {}) =>
    printManifest(repository, 'test', {format, after: () => ({}), onBegin})

  beforeAll(async () => {
    const ids = Array.from({length: ENTITIES}, (_, at) => `e${String(at).padStart(200, '0')}`)
    await putAll(tenant, [
      ...ids.map(id => entityItem(tenant.namespace, id)),
      // With limits and without a record, between the others.
      ...ids.slice(0, 9).map(id => entityConfigItem(tenant.namespace, `${id}x`, 'r')),
    ])
  })

  it('equals a manifest exported as a whole, in every format', async () => {
    await print('table')
    expect(written).toBe(await exportManifest(repository, 'test'))
    const whole = parseManifest(written, {file: 'f'})
    for (const format of ['json', 'yaml'] as const) {
      written = ''
      await print(format)
      expect(parseManifest(written, {file: 'f'})).toEqual(whole)
    }
    expect(JSON.stringify(await exportForm(repository, 'test')).length).toBeGreaterThan(65_536)
  })

  it.each(FORMATS)('is not a valid manifest as %s when reading fails in the middle', async format => {
    let reads = 0
    tenant.transport.before = (operation, input) => {
      if (operation !== 'BatchGetItem' || !JSON.stringify(input).includes('#META')) return
      if (++reads > 4) throw new TypeError('a bug')
    }
    const onBegin = vi.fn()
    await expect(print(format, onBegin)).rejects.toThrow('a bug')
    expect(onBegin).toHaveBeenCalledOnce()
    expect(written.length).toBeGreaterThan(65_536)
    expect(() => parseManifest(written, {file: 'f'})).toThrow()
  })
})
