import {describe, expect, it} from 'vitest'
import {resourceColumns} from '../../../src/lib/live/screen/resources-panel.js'
import {draw} from './draw.js'

const keysAt = (width: number) => resourceColumns(width).map(({key}) => key)

describe('the resources', () => {
  it.each([40, 60, 80, 120, 250])('fill %d columns without a truncated number', columns => {
    const text = draw({columns, rows: 9, state: {tab: 'resources'}})
    const [title = '', ...rows] = text.split('\n').slice(3, 7)
    expect(title).not.toContain('…')
    expect(rows.map(row => row.slice(2, 8))).toEqual(['a-reso', 'gpt-4 ', 'search'])
    for (const row of rows) expect(row.slice(2)).not.toMatch(/\d…|\/…/)
  })

  it('list as many consumers as fit, and at least the rate of the first', () => {
    const mostAt = (columns: number) => {
      const [title = '', , ...rows] = draw({columns, rows: 9, state: {tab: 'resources'}})
        .split('\n')
        .slice(3, 7)
      return rows.map(row => row.slice(title.indexOf('MOST USED BY')))
    }
    expect(mostAt(80)).toEqual(['team-re… 2.5k/s (tpm)', 'hot-key 10/s (rps)'])
    expect(mostAt(120)).toEqual(['team-research 2.5k/s (tpm)', 'hot-key 10/s (rps)'])
  })

  it('count over and near on every screen, and list consumers from 80 columns on', () => {
    for (const width of [40, 60, 80, 200]) expect(keysAt(width)).toEqual(expect.arrayContaining(['over', 'near']))
    expect(keysAt(40)).toEqual(['resource', 'level', 'over', 'near'])
    expect(keysAt(60)).toEqual(['resource', 'level', 'limit', 'rate', 'over', 'near'])
    expect(keysAt(80)).toEqual(['resource', 'level', 'limit', 'rate', 'over', 'near', 'top'])
    expect(keysAt(120)).toEqual([
      'resource',
      'entities',
      'gauge',
      'level',
      'limit',
      'rate',
      'refused',
      'over',
      'near',
      'top',
    ])
  })
})
