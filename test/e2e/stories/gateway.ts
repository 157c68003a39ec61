import {RateLimiter} from '../../../src/lib/index.js'

/** A gateway with three open streams, until it is killed. */
const limiter = new RateLimiter({stack: 'local', endpoint: process.argv[2] ?? ''})
for (let stream = 0; stream < 3; stream++)
  await limiter.acquire({entity: 'cust-05', resource: 'streams', consume: {rpm: 1}})
process.on('disconnect', () => process.exit())
process.send?.('streaming')
