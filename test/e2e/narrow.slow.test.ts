import {stripVTControlCharacters} from 'node:util'
import {beforeAll, expect, inject, it} from 'vitest'
import {textWidth} from '../../src/lib/core/text/text-width.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {EVENT_ID, populate} from './populate.js'
import {zael} from './zael.js'

const COLUMNS = 40

const DAY = '--since 2026-11-01 --until 2026-11-02'

describeOnEngine('a terminal of 40 columns', {timeout: 120_000}, () => {
  const table = useTable({stream: true})

  beforeAll(async () => {
    await populate(table)
  })

  const show = (line: string) =>
    zael([...line.split(' '), '--stack', table.name, '--endpoint-url', inject('engineEndpoint')], {
      env: {NO_COLOR: '1'},
      columns: COLUMNS,
    })

  it.each([
    'acquire user-2 gpt-4 rpm=1 --dry-run',
    'audit list',
    `audit show ${EVENT_ID}`,
    'bucket list --resource gpt-4',
    'bucket show user-1',
    'entity delete idle --dry-run',
    'entity list',
    'entity list --limit 1',
    'entity show user-1',
    'holders list --slots',
    'run list',
    'limits get --resource gpt-4',
    'limits list',
    'limits resolve user-1 gpt-4',
    'limits set --resource gpt-4 rpm=7 --dry-run',
    'migrate status',
    'namespace show default',
    `usage show user-1 ${DAY}`,
    `usage top ${DAY}`,
    `usage top --by refused ${DAY}`,
    'watch --once --all',
    'why user-2 gpt-4 rpm=90',
    'why user-1',
    'why nobody no-such-resource rpm=1',
    'entity show no-such-entity',
  ])('fits zael %s without splitting words', async line => {
    const {stdout, stderr} = await show(line)
    const own = stripVTControlCharacters(`${stdout}${stderr}`).split(/[\n\r]/)
    // A word may be longer than a line, such as a path or an id.
    expect(own.filter(text => textWidth(text) > COLUMNS && /\S \S/.test(text.replace(/ \\$/, '')))).toEqual([])
    expect(own.join('').length).toBeGreaterThan(COLUMNS)
  })

  it('suggests commands that a shell joins again', async () => {
    const {stdout} = await show('why user-2 gpt-4 rpm=90')
    const {stdout: whole} = await zael(
      [...'why user-2 gpt-4 rpm=90 --stack'.split(' '), table.name, '--endpoint-url', inject('engineEndpoint')],
      {env: {NO_COLOR: '1'}},
    )
    const [command = ''] = /zael bucket reset .*?(?= {2})/.exec(whole) ?? []
    expect(command).not.toBe('')
    expect(stdout.replaceAll(/\\\n\s*/g, '')).toContain(command)
  })

  it('leaves lines whole in a pipe', async () => {
    const flags = ['--stack', table.name, '--endpoint-url', inject('engineEndpoint')]
    const {stdout} = await zael(['why', 'user-2', 'gpt-4', 'rpm=90', ...flags], {env: {COLUMNS: String(COLUMNS)}})
    expect(stdout.split('\n')[0]).toMatch(/^user-2, gpt-4: a request for 90 rpm is refused\. .*Z\.$/)
  })
})
