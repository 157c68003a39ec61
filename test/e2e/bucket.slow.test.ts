import {beforeAll, expect, it} from 'vitest'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {populate} from './populate.js'
import {tableCli} from './table-cli.js'

describeOnEngine('zael bucket', () => {
  const table = useTable()
  const cli = tableCli(table)

  beforeAll(async () => {
    await populate(table)
  })

  it('show lists every shard, and the sums', async () => {
    expect(await cli.show('bucket show user-1', 80)).toMatchInlineSnapshot(`
      "Bucket of user-1 · gpt-4, 2 shards
      SHARD  LIMIT  LEVEL  CAPACITY  FULL  DEBT  REFILL/S  PRESSURE  AGE   EXPIRES
        all  rpm      -20       100   0 %    20      1.67         -  -     -
        all  tpm    9,880    10,000  99 %     0    166.67         -  -     -
          0  rpm      -10        50   0 %    10      0.83       0 %  0 ms  never
          0  tpm    4,940     5,000  99 %     0     83.33       0 %  0 ms  never
          1  rpm      -10        50   0 %    10      0.83       0 %  0 ms  never
          1  tpm    4,940     5,000  99 %     0     83.33       0 %  0 ms  never
      "
    `)
    expect(await cli.show('bucket show user-2', 120)).toMatchInlineSnapshot(`
      "Buckets of user-2
      RESOURCE  SHARD  LIMIT  LEVEL  CAPACITY   FULL  DEBT  REFILL/S  PRESSURE  AGE   EXPIRES
      gpt-4         0  rpm       60       100   60 %     0      1.67       0 %  0 ms  never
      gpt-4         0  tpm    9,960    10,000  >99 %     0    166.67       0 %  0 ms  never
      search        0  rpm       60        60  100 %     0         1       0 %  0 ms  never
      "
    `)
  })

  it('show --json matches its schema, and names unknown entities and resources', async () => {
    expect(await cli.tell('bucket show user-1 --resource gpt-4')).toMatchObject({
      entity: 'user-1',
      buckets: [
        {
          resource: 'gpt-4',
          shardCount: 2,
          limits: [
            {name: 'rpm', level: -20, debt: 20},
            {name: 'tpm', level: 9880},
          ],
        },
      ],
    })
    expect(await cli.tell('bucket show idle')).toEqual({entity: 'idle', buckets: []})
    expect(await cli.fail('bucket show user-1 --resource search')).toMatchObject({
      code: 3,
      error: {code: 'bucket.missing'},
    })
    expect(await cli.fail('bucket show user-l')).toMatchObject({code: 3, error: {code: 'entity.missing'}})
    expect(await cli.fail('bucket show')).toMatchObject({code: 2})
  })

  it('list pages through the buckets of a resource', async () => {
    expect(await cli.show('bucket list --resource gpt-4', 80)).toMatchInlineSnapshot(`
      "ENTITY  LIMIT  LEVEL  CAPACITY   FULL  DEBT  REFILL/S  SHARDS  AGE
      user-1  rpm      -20       100    0 %    20      1.67       2  0 ms
      user-1  tpm    9,880    10,000   99 %     0    166.67       2  0 ms
      user-2  rpm       60       100   60 %     0      1.67       1  0 ms
      user-2  tpm    9,960    10,000  >99 %     0    166.67       1  0 ms
      "
    `)
    expect(await cli.show('bucket list --resource search', 120)).toMatchInlineSnapshot(`
      "ENTITY  LIMIT  LEVEL  CAPACITY   FULL  DEBT  REFILL/S  SHARDS  AGE
      user-2  rpm       60        60  100 %     0         1       1  0 ms
      "
    `)
    const first = await cli.tell('bucket list --resource gpt-4 --limit 1')
    expect(first).toMatchObject({resource: 'gpt-4', buckets: [{entity: 'user-1'}], next: expect.any(String)})
    expect(await cli.tell(`bucket list --resource gpt-4 --limit 1 --cursor ${first.next}`)).toMatchObject({
      buckets: [{entity: 'user-2'}],
      next: null,
    })
    expect(await cli.fail('bucket list --resource gtp-4')).toMatchObject({code: 3, error: {code: 'resource.missing'}})
    expect(await cli.fail(`bucket list --resource gpt-4 --cursor '#'`)).toMatchObject({code: 2})
    expect(await cli.fail('bucket list')).toMatchObject({code: 2})
  })

  it('reset asks for confirmation, fills the bucket, and is audited', async () => {
    expect(await cli.fail('bucket reset user-1 --resource gpt-4')).toMatchObject({
      code: 2,
      error: {code: 'confirm.needed'},
    })
    expect(await cli.fail('bucket reset user-l --resource gpt-4 --yes')).toMatchObject({code: 3})
    expect(await cli.tell('bucket show user-1')).toMatchObject({buckets: [{limits: [{level: -20}, {}]}]})
    expect(await cli.show('bucket reset user-1 --resource gpt-4 --yes', 80)).toBe(
      'The bucket of user-1 for gpt-4 is full (2 shards): rpm +120, tpm +120\n',
    )
    expect(await cli.tell('bucket show user-1')).toMatchObject({
      buckets: [{limits: [{level: 100, debt: 0}, {level: 10_000}]}],
    })
    expect(await cli.tell('bucket reset user-1 --resource gpt-4 --yes')).toMatchObject({shards: 2, ghosts: 0})
    const {events} = await cli.tell('audit list user-1 --action bucket_reset --since 1h')
    expect(events).toHaveLength(2)
  })

  it('reset of one limit keeps the others, and happens once per key', async () => {
    await cli.show('acquire user-2 gpt-4 rpm=10 tpm=10', 80)
    const command = 'bucket reset user-2 --resource gpt-4 --only tpm --idempotency-key case-1 --yes'
    expect(await cli.tell(command)).toEqual({
      entity: 'user-2',
      resource: 'gpt-4',
      idempotencyKey: 'case-1',
      isRepeated: false,
      shards: 1,
      reset: 1,
      ghosts: 0,
      amounts: {tpm: 50},
    })
    expect(await cli.tell(command)).toMatchObject({isRepeated: true, reset: 0, amounts: {tpm: 50}})
    expect(await cli.show(command, 120)).toBe(
      'Nothing was changed: the key case-1 was already used to reset user-2 for gpt-4 (tpm +50)\n',
    )
    expect(
      await cli.fail('bucket reset user-2 --resource gpt-4 --idempotency-key case-1 --only rpm --yes'),
    ).toMatchObject({
      code: 5,
      error: {code: 'bucket.key-used'},
    })
    expect(await cli.fail('bucket reset user-2 --resource gpt-4 --only nope --yes')).toMatchObject({
      code: 2,
      error: {code: 'limit.unknown'},
    })
  })

  it('top-up adds to a quota, in money too, once per key; show and why display it', async () => {
    await cli.tell('limits set --only --entity buyer --resource gpt-4 usd=$20/month@UTC rpd=10/day@UTC burst=100/30d')
    await cli.show('acquire buyer gpt-4 rpd=10 burst=40', 80)
    expect(await cli.fail('bucket top-up buyer gpt-4 rpd=5')).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
    expect(await cli.show('bucket top-up buyer gpt-4 rpd=5 usd=$5 burst=30 --idempotency-key order-1 --yes', 120)).toBe(
      'Topped up buyer for gpt-4: burst +30, rpd +5, usd +$5\n',
    )
    expect(
      await cli.tell('bucket top-up buyer gpt-4 rpd=5 usd=$5 burst=30 --idempotency-key order-1 --yes'),
    ).toMatchObject({
      isRepeated: true,
      shards: 1,
      asked: {rpd: 5, burst: 30, usd: 5_000_000},
      amounts: {rpd: 5, burst: 30, usd: 5_000_000},
    })
    expect(await cli.show('bucket show buyer --columns limit,level,capacity,topped-up', 100)).toMatchInlineSnapshot(`
      "Bucket of buyer · gpt-4
      LIMIT  LEVEL  CAPACITY  TOPPED UP
      burst     90       100          -
      rpd        5        15          5
      usd      $25       $25         $5
      "
    `)
    const {limits} = JSON.parse((await cli.run('why buyer gpt-4 burst=1 rpd=1 usd=$1 --json')).stdout)
    expect(limits).toMatchObject([
      {name: 'burst'},
      {name: 'rpd', toppedUp: 5, capacity: 15, available: 5},
      {name: 'usd', toppedUp: 5_000_000, capacity: 25_000_000},
    ])
    const {stdout} = await cli.run('why buyer gpt-4 rpd=9')
    expect(stdout).toMatch(/topped up +5 until the reset/)
    expect(stdout).toContain('zael bucket top-up buyer gpt-4 rpd=4')
    const {events} = await cli.tell('audit list buyer --action bucket_topped_up --since 1h')
    expect(events).toMatchObject([{details: {amounts: {rpd: 5, burst: 30, usd: 5_000_000}, shards: 1}}])
  })

  it('top-up checks limits before it asks, and asks with the balance before and after', async () => {
    await cli.tell('namespace create shop')
    await cli.tell('limits set --only --entity noa --resource llm usd=$20/month@UTC rpm=100/min --namespace shop')
    expect(await cli.fail('bucket top-up noaa llm usd=$5 --namespace shop')).toMatchObject({
      code: 3,
      error: {code: 'limits.missing', hint: expect.stringContaining('Did you mean "noa"?')},
    })
    expect(await cli.fail('bucket top-up noa llm eur=5 --namespace shop')).toMatchObject({
      code: 2,
      error: {code: 'limit.unknown'},
    })
    const question = async () => (await cli.fail('bucket top-up noa llm usd=$5 rpm=5 --namespace shop')).error.message
    const asks = 'This adds usd=$5 rpm=5 to the bucket of noa for llm: '
    expect(await question()).toContain(`${asks}rpm left 100 → 100, usd left $20 → $25. `)
    await cli.show('acquire noa llm usd=$3 --namespace shop', 80)
    expect(await question()).toContain('usd left $17 → $22')
  })

  it.each([
    ['bucket top-up buyer gpt-4 usd=5 --yes', 'limit.unit'],
    ['bucket top-up buyer gpt-4 usd=€5 --yes', 'limit.unit'],
    ['bucket top-up buyer gpt-4 rpd=$5 --yes', 'limit.unit'],
    ['bucket top-up buyer gpt-4 rpd=0 --yes', 'request.syntax'],
    ['bucket top-up buyer gpt-4 rpd --yes', 'request.syntax'],
    ['bucket top-up buyer gpt-4 rpd=1 rpd=2 --yes', 'request.syntax'],
    ['bucket top-up buyer gpt-4 nope=1 --yes', 'limit.unknown'],
    ['bucket top-up buyer gpt-4 rpd=1 --idempotency-key a#b --yes', 'bucket.key'],
  ])('refuses %s', async (command, code) => {
    expect(await cli.fail(command)).toMatchObject({code: 2, error: {code}})
  })

  it('top-up warns of an entity that nothing has used, before it asks', async () => {
    const notice = expect.stringMatching(
      /^Warning: Unknown entity "user-l": nothing has used it yet\. Did you mean "user-1"/,
    )
    const asked = await cli.run('bucket top-up user-l gpt-4 tpm=5')
    expect([asked.code, asked.stderr]).toEqual([2, notice])
    expect(asked.stderr).toContain('\nError: This adds tpm=5 to the bucket of user-l')
    const confirmed = await cli.run('bucket top-up user-l gpt-4 tpm=5 --yes')
    expect([confirmed.code, confirmed.stderr]).toEqual([0, notice])
    expect((await cli.run('bucket top-up user-2 gpt-4 tpm=5 --yes')).stderr).toBe('')
  })

  it('top-up by several processes with one key happens once', async () => {
    const command = 'bucket top-up buyer gpt-4 rpd=3 --idempotency-key race --yes'
    const results = await Promise.all([cli.tell(command), cli.tell(command), cli.tell(command)])
    expect(results.filter(({isRepeated}) => !isRepeated)).toHaveLength(1)
    const {buckets} = await cli.tell('bucket show buyer')
    expect(buckets[0].limits).toContainEqual(expect.objectContaining({name: 'rpd', level: 8, toppedUp: 8}))
  })

  it('top-up with the key of another amount is a conflict', async () => {
    expect(await cli.fail('bucket top-up buyer gpt-4 rpd=6 --idempotency-key order-1 --yes')).toMatchObject({
      code: 5,
      error: {code: 'bucket.key-used', message: expect.stringContaining('usd=$5')},
    })
  })
})
