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
      ['rpm=100/min', '100 per minute, refilled continuously'],
      ['tpm=100k/min', '100,000 per minute'],
      ['rps=10/sec:50', '10 per second, bursts of up to 50'],
      ['jobs=500/15min', '500 per 15 minutes'],
      ['rpd=10k/day@Europe/Berlin', '10,000 per calendar day in Berlin'],
      ['rpd=10k@"0 9 * * 1-5 Europe/Berlin"', '10,000, reset at 9:00 on weekdays'],
      ['rpd=10k@"0 9 * * *; 0 18 * * *"', '10,000, reset at 9:00 and 18:00 UTC'],
      ['session=200/5hour!', '200 within 5 hours of the first use'],
      ['usd=$500/month@UTC', '500 US dollars per calendar month'],
      ['parallel=20/inflight', 'at most 20 requests in flight, over all processes'],
      ['rpm=100/min,soft', 'counted, but never refuses'],
      ['tpm=90k/min,x0.1@"* 22,23 * * *"', 'a tenth from 22:00 to 24:00 UTC'],
      ['tpm=90k/min,200k:300k@"* 9-16 * * 1-5"', '200,000, burst 300,000, in office hours'],
      ['rpd=10k/day@UTC,5k@"* * * * 6,7"', 'half the quota on weekends'],
    ])
  })
})
