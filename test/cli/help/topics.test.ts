import {describe, expect, it} from 'vitest'
import {HELP_TOPICS} from '../../../src/lib/cli/help/topics.js'
import {EXIT} from '../../../src/lib/cli/output/exit.js'
import {formatLimit, parseLimit} from '../../../src/lib/core/limits/limit-text.js'

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
      ['rpd=10k/day@Europe/Berlin', '10,000 per calendar day in Berlin'],
      ['rpd=10k@"0 9 * * 1-5 Europe/Berlin"', '10,000, again at 9:00 in Berlin on weekdays'],
      ['session=200/5hour!', '200 in 5 hours from the first use'],
      ['usd=$500/month@UTC', '500 US dollars per calendar month'],
      ['rpm=100/min,soft', '100 per minute, counted but never refused'],
      ['tpm=100k/min,x0.1@"* 22,23 * * * Europe/Berlin"', 'a tenth of it from 22:00 to 24:00 in Berlin'],
      ['tpm=100k/min,200k/min:300k@"* 9-16 * * 1-5"', 'more from 9:00 to 17:00 UTC on weekdays'],
    ])
  })
})
