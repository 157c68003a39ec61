import {describe, expect, it} from 'vitest'
import {HELP_TOPICS} from '../../../src/lib/cli/help/topics.js'
import {EXIT} from '../../../src/lib/core/errors.js'
import {formatLimit, parseLimit} from '../../../src/lib/core/limit.js'

function entriesOf(name: string) {
  return HELP_TOPICS.find(topic => topic.name === name)?.entries ?? []
}

describe('help topics', () => {
  it('name every exit code', () => {
    expect(entriesOf('exit-codes').map(({term}) => Number(term))).toEqual(Object.values(EXIT))
  })

  it('show limits that parse to the described values', () => {
    expect(entriesOf('limit-syntax').map(({term, meaning}) => [formatLimit(parseLimit(term)), meaning])).toEqual([
      ['tpm=100k/min', '100,000 per minute'],
      ['rpm=100/min', '100 per minute'],
      ['rpm=100/min', 'the same'],
      ['tpd=1M/day', '1,000,000 per day'],
      ['rpm=10/sec:50', '10 per second, with bursts of up to 50'],
      ['custom=500/15min', '500 every 15 minutes'],
    ])
  })
})
