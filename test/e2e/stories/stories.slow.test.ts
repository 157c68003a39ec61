import {EventEmitter, once} from 'node:events'
import {writeFile} from 'node:fs/promises'
import {join} from 'node:path'
import {isDeepStrictEqual} from 'node:util'
import {afterAll, beforeAll, describe, expect, inject, it} from 'vitest'
import {defineLimits} from '../../../src/lib/index.js'
import {engineProxy} from '../engine-proxy.js'
import {RunningProcess} from '../running-zael.js'
import type {JsonOutput} from '../table-cli.js'
import {type Story, writePage} from './page.js'
import {countPast} from './past-usage.js'
import {StoryStack} from './story-stack.js'

const DAY_MS = 86_400_000

const CUSTOMERS = Array.from({length: 50}, (_, at) => `cust-${String(at + 1).padStart(2, '0')}`)

/** Pause between two requests of a customer, in ms; some stories wait for the next one. */
const pauseOf = (entity: string): number => (['cust-12', 'cust-33'].includes(entity) ? 150 : 1200)

/** A poll of `zael watch --json`, as far as it is needed here. */
interface Poll {
  readonly at: string
  readonly buckets: {entity: string; resource: string; status: string; refusedPerSecond: number | null}[]
}

describe.skipIf(inject('engineEndpoint') === '')('the stories of an operator', {timeout: 240_000}, () => {
  const startedMs = Date.now()
  const stories: Story[] = []
  let stack: StoryStack

  beforeAll(async () => {
    stack = await StoryStack.create()
    const {namespace, endpoint} = stack
    expect((await stack.run('zael namespace set default --levels all')).code).toBe(0)
    await namespace.setLimits({level: 'resource', resource: 'gpt-4'}, defineLimits(['rpm=600/min', 'tpm=100k/min']))
    await namespace.setLimits({level: 'resource', resource: 'batch'}, defineLimits(['rpm=6k/min', 'tpd=200k/day']))
    await Promise.all(CUSTOMERS.map(id => namespace.entities.create({id, name: `Customer ${id.slice(5)}`})))
    stack.send(
      ...CUSTOMERS.map(entity => ({entity, resource: 'gpt-4', consume: {rpm: 1, tpm: 400}, pauseMs: pauseOf(entity)})),
      {
        entity: 'cust-09',
        resource: 'batch',
        consume: {rpm: 1, tpd: 10},
        pauseMs: 200,
      },
    )
    const past = CUSTOMERS.slice(0, 14).flatMap((entity, at) =>
      [1, 2, 3, 4, 5, 6].map(days => {
        const requests = 400 * (14 - at)
        return {
          entity,
          resource: 'gpt-4',
          atMs: startedMs - days * DAY_MS,
          requests,
          tokens: {rpm: requests, tpm: 900 * requests},
        }
      }),
    )
    await countPast(endpoint, namespace.id, past)
    await stack.until('cust-50 gpt-4', ({admitted}) => admitted > 0)
  }, 120_000)

  afterAll(async () => {
    await stack.leave()
    if (process.env.ZAEL_STORIES === 'write') await writePage(stories, startedMs)
  }, 120_000)

  /** A test that is also a section of the page. */
  function story(title: string, text: string, play: () => Promise<void>): void {
    it(title, async () => {
      stack.take()
      await play()
      stories.push({title, text, shown: stack.take()})
      expect((await stack.report()).errors).toEqual([])
    })
  }

  story(
    '429s at 3 a.m.',
    'A customer reports 429 errors. `zael watch` shows who is refused, `zael why` explains it and suggests commands, and one command fixes it.',
    async () => {
      const flags = ['--stack', 'local', '--endpoint-url', stack.endpoint]
      const watching = new RunningProcess(['watch', '--json', '--interval', '500ms', ...flags])
      await watching.until(/\n/)
      stack.send({entity: 'cust-08', resource: 'batch', consume: {rpm: 1, tpd: 4000}, pauseMs: 1})
      const {firstRefusedMs = 0} = await stack.until('cust-08 batch', ({refused}) => refused > 2)
      await watching.until(/"entity":"cust-08","resource":"batch","status":"over"[^}]*"refusedPerSecond":[\d.]*[1-9]/)
      const {stdout} = await watching.stop('SIGTERM')
      const polls = stdout
        .split('\n')
        .filter(line => line.startsWith('{'))
        .map(line => JSON.parse(line) as Poll)
      const after = polls.filter(({at}) => Date.parse(at) > firstRefusedMs)
      const isOver = ({buckets}: Poll) =>
        buckets.some(({entity, resource, status}) => `${entity} ${resource} ${status}` === 'cust-08 batch over')
      expect(after.findIndex(isOver)).toBeLessThan(2)
      expect(after.findIndex(isOver)).toBeGreaterThanOrEqual(0)

      await stack.untilShown('zael why cust-08 batch', ({refused}) => refused.requests > 0)

      const found = await stack.type('zael watch --once --filter status:over')
      expect(found).toMatch(/^over +cust-08 +batch +tpd .* [1-9]\d* +\S+ ago/m)
      expect(found).toContain('1 of 52 buckets, 1 over')
      const why = await stack.type('zael why cust-08')
      expect(why).toContain('cust-08: 2 resources, 1 refusing now.')
      // The wait of one request leads only if fewer than half of the recent requests were refused.
      expect(why).toMatch(
        /[Aa] typical request \(1 rpm and 4,000 tpd\) is refused( now; without other requests, it would be admitted in |\. It will)/,
      )
      expect(why).toMatch(
        /^cust-08.*: >?\d+ % of requests refused \(\d+ of [\d,]+ since \S+, last \d+ m?s ago(?:, counted up to 10 s late)?\)\./m,
      )
      const [command = ''] = /zael bucket reset .*?(?= {2})/.exec(why) ?? []
      expect(why.indexOf('zael limits set')).toBeGreaterThan(why.indexOf(command))
      const {admitted} = await stack.until('cust-08 batch', () => true)
      await stack.type(`${command} --yes`)
      await stack.until('cust-08 batch', tally => tally.admitted > admitted + 2)
    },
  )

  story(
    'One customer needs more for a day',
    'A customer launches tomorrow and needs three times the tokens for a day. The temporary limit expires automatically.',
    async () => {
      const set = await stack.type('zael limits set --entity cust-12 --resource gpt-4 tpm=300k --for 24h')
      expect(set).toMatch(/rpm +600\/min, unchanged, copied from resource gpt-4/)
      expect(set).toMatch(/tpm +100k\/min → 300k\/min until \S+ \S+ UTC, then 100k\/min \(resource level\)/)
      expect(set).toMatch(/affects +1 entity with 1 live bucket/)
      expect(set).toContain('Expires at ')
      expect(await stack.type('zael limits boosts')).toMatch(
        /^cust-12 +gpt-4 +tpm +300k\/min .* 100k\/min \(resource level\)/m,
      )
      const {admitted} = await stack.until('cust-12 gpt-4', () => true)
      await stack.until('cust-12 gpt-4', tally => tally.admitted > admitted)
    },
  )

  story(
    'The ten largest customers of last week, for a spreadsheet',
    'One row per customer, plain numbers, a column for each limit.',
    async () => {
      const csv = await stack.type('zael usage top --by entity,tpm --since 7d --limit 10 --output csv')
      const [titles, ...rows] = csv.trimEnd().split('\n')
      expect(titles).toBe('entity,share,requests,used-rpm,used-tpd,used-tpm,refused,refused-tpd,blocked')
      expect(rows.pop()).toMatch(/^Printed 10 of \d+ consumers\. Without --limit, all are printed\.$/)
      expect(rows.map(row => row.split(',')[0])).toEqual(CUSTOMERS.slice(0, 10))
      // Six days, and the traffic since.
      expect(Number(rows[0]?.split(',')[5])).toBeGreaterThanOrEqual(6 * 14 * 400 * 900)
      expect(csv).not.toMatch(/\d,\d{3},\d{3}\b.*"/)
    },
  )

  story(
    'Block a key now',
    'A key has leaked. Once the command returns, no process admits its requests: the service responds with 403 instead of 429. If the key has its own switch for a resource (disable, bypass, exempt), that switch takes precedence there. The output then lists it, with the command that disables the key for that resource too. `enable` ends the block.',
    async () => {
      expect(await stack.type('zael entity disable cust-33')).toMatch(/live buckets +1 updated/)
      const {admitted} = await stack.until('cust-33 gpt-4', () => true)
      const blocked = await stack.until('cust-33 gpt-4', ({disabled}) => disabled > 1)
      // One may have been in flight.
      expect(blocked.admitted).toBeLessThanOrEqual(admitted + 1)
      const why = await stack.type('zael why cust-33')
      expect(why).toContain('gpt-4 is disabled for cust-33: every request is refused until the switch is removed.')
      expect(await stack.type('zael audit list cust-33 --limit 1')).toContain('disabled: not set → yes')
      await stack.type('zael entity enable cust-33')
      await stack.until('cust-33 gpt-4', tally => tally.admitted > blocked.admitted)
    },
  )

  story(
    'Delete a leaked key, and keep it blocked',
    'A key of the team has leaked and will be replaced. `zael entity delete --block` blocks the key, then deletes it with its usage. Its requests stay refused until somebody lifts the block.',
    async () => {
      const {namespace} = stack
      await namespace.entities.create({id: 'team-7', name: 'Team 7'})
      await namespace.entities.create({id: 'key-7', parent: 'team-7', cascade: true})
      stack.send({entity: 'key-7', resource: 'gpt-4', consume: {rpm: 1, tpm: 10}, pauseMs: 50})
      await stack.until('key-7 gpt-4', ({admitted}) => admitted > 2)
      const deleted = await stack.type('zael entity delete key-7 --block --yes')
      expect(deleted).toContain('key-7 stays blocked: every later request is refused.')
      const {admitted, disabled} = await stack.until('key-7 gpt-4', () => true)
      const blocked = await stack.until('key-7 gpt-4', tally => tally.disabled > disabled + 20)
      // One may have been in flight when the command ended.
      expect(blocked.admitted).toBeLessThanOrEqual(admitted + 1)
      expect(await stack.type('zael entity show key-7')).toMatch(/^Entity "key-7" was deleted at .* and is blocked\./)
      expect(await stack.type('zael entity list --prefix key-')).toContain('Deleted, but still blocked: key-7')
      expect(await stack.type('zael why key-7 gpt-4')).toContain('gpt-4 is disabled for key-7')
      expect(await stack.type('zael entity enable key-7 --yes')).toContain('disabled → (none)')
      await stack.until('key-7 gpt-4', tally => tally.admitted > blocked.admitted)
    },
  )

  story(
    'Who would a lower limit affect?',
    'Before you lower a limit, replay the usage of the last week against it. The command changes nothing.',
    async () => {
      const impact = await stack.type('zael limits impact --resource gpt-4 tpm=50k/min')
      expect(impact).toMatch(/^refused +cust-01 +gpt-4 +tpm=50k\/min +6 +at least /m)
      expect(impact).toMatch(/^ +6 refused +some requests would have been refused, for certain$/m)
      // Its limits are a copy for a boost: then it follows the others again.
      expect(impact).toMatch(/^in bursts +cust-12 /m)
      expect(impact).toContain('1 listed entity has a temporary limit now')
      // Other customers used little, and unchanged limits refuse nobody.
      expect(impact).not.toMatch(/cust-40|rpm/)
      expect(await stack.type('zael limits get --resource gpt-4')).toContain('100k/min')
    },
  )

  story(
    'CI finds drift',
    'A file defines the limits, and somebody changed one by hand. `limits diff` exits with code 6; `limits apply` restores the limit.',
    async () => {
      const {stdout} = await stack.run('zael limits export')
      await writeFile(join(stack.user.folder, 'limits.yaml'), stdout)
      expect((await stack.run('zael limits apply -f limits.yaml --yes')).code).toBe(0)
      expect((await stack.run('zael limits set --resource gpt-4 tpm=1M')).code).toBe(0)
      const drift = await stack.type('zael limits diff -f limits.yaml', 6)
      expect(drift).toMatch(/resource gpt-4.*tpm/)
      expect(await stack.type('zael limits plan -f limits.yaml')).toMatch(/resource gpt-4.*tpm 1M\/min → 100k\/min/)
      expect(await stack.type('zael limits apply -f limits.yaml --yes')).toContain('everything matches the manifest')
      await stack.type('zael limits diff -f limits.yaml')
    },
  )

  story(
    'Two people apply at once',
    'Bob applies his file while Ada applies hers. Only one run at a time can change the limits. The other run exits with code 5 and names the person who holds the lock. A plan file is applied exactly, or not at all. The lock of a killed process expires after 30 seconds; `limits unlock` removes it at once. In the audit log, `$RESOURCE:gpt-4` stands for the limits of the resource gpt-4.',
    async () => {
      const {stdout: current} = await stack.run('zael limits export')
      const write = (name: string, rate: string) =>
        writeFile(join(stack.user.folder, name), current.replace('tpm: 100k/min', `tpm: ${rate}`))
      await write('bob.yaml', '120k/min')
      await write('ada.yaml', '150k/min')
      const rate = async () => (await stack.namespace.configs.get({level: 'resource', resource: 'gpt-4'}))?.limits[1]
      /** Bob's run, in a process of its own; it stays at its first change until the returned function is called. */
      const bobApplies = async () => {
        const steps = new EventEmitter()
        const [reached, opened] = [once(steps, 'reached'), once(steps, 'opened')]
        const proxy = await engineProxy(stack.endpoint, async operation => {
          if (operation === 'TransactWriteItems') {
            steps.emit('reached')
            await opened
          }
          return 'answered' as const
        })
        const flags = ['--stack', 'local', '--endpoint-url', proxy.endpoint]
        const file = join(stack.user.folder, 'bob.yaml')
        const run = new RunningProcess(['limits', 'apply', '-f', file, '--yes', ...flags], {
          ZAEL_PRINCIPAL: 'bob@build-7',
        })
        await reached
        return {run, proceed: () => steps.emit('opened'), proxy}
      }

      const bob = await bobApplies()
      const refused = await stack.type('zael limits apply -f ada.yaml --yes', 5)
      expect(refused).toMatch(/bob@build-7 \(process \d+ on .*\) has been applying a manifest to this namespace since /)
      bob.proceed()
      const {code, stdout} = await bob.run.ended
      expect([code, (await rate())?.capacity]).toEqual([0, 120_000])
      expect(stdout).toContain('Applied: everything matches the manifest')
      await bob.proxy[Symbol.asyncDispose]()

      expect(await stack.type('zael limits plan -f ada.yaml --out plan.json')).toMatch(/tpm 120k\/min → 150k\/min/)
      expect(await stack.type('zael limits set --resource gpt-4 tpm=90k/min')).toMatch(/tpm +120k\/min → 90k\/min/)
      expect(await stack.type('zael limits apply plan.json --yes', 5)).toContain('(the plan expected other values)')
      expect((await rate())?.capacity).toBe(90_000)

      const killed = await bobApplies()
      await killed.run.stop('SIGKILL')
      killed.proceed()
      await killed.proxy[Symbol.asyncDispose]()
      await stack.type('zael limits apply -f ada.yaml --yes', 5)
      expect(await stack.type('zael limits unlock --yes')).toContain('Removed the lock of bob@build-7')
      expect(await stack.type('zael limits apply -f ada.yaml --yes')).toContain('everything matches the manifest')
      expect((await rate())?.capacity).toBe(150_000)
      expect(await stack.type(`zael audit list '$RESOURCE:gpt-4' --limit 2`)).toMatch(/ ada@laptop /)
      expect((await stack.run('zael limits apply -f limits.yaml --yes')).code).toBe(0)
    },
  )

  story(
    'Five hundred customers from a file',
    'A CSV file has one line per customer, some with their own limits. The import checks the whole file first. After an interruption, run it again.',
    async () => {
      const lines = Array.from({length: 500}, (_, at) => {
        const id = `acme-${String(at + 1).padStart(3, '0')}`
        return at % 10 === 0 ? `${id},Acme ${at + 1},gold,tpm=400k/min` : `${id},Acme ${at + 1},silver,`
      })
      const text = ['id,name,metadata.plan,limits.gpt-4', ...lines, ''].join('\n')
      await writeFile(join(stack.user.folder, 'customers.csv'), text)
      stack.note(`$ head -3 customers.csv\n${text.split('\n').slice(0, 3).join('\n')}`)
      const plan = '500 to create, 0 to update, 50 sets of limits to write'
      expect(await stack.type('zael entity import customers.csv --dry-run')).toContain(plan)
      expect(await stack.type('zael entity import customers.csv')).toContain(
        'Created 500, updated 0, wrote 50 sets of limits',
      )
      expect(await stack.type('zael entity import customers.csv')).toContain('500 entities unchanged')
      const gold = await stack.type('zael entity list -m plan=gold --limit 2 --columns id,name')
      expect(gold).toContain('acme-011')
      expect(await stack.type('zael limits resolve acme-011 gpt-4')).toMatch(/rpm +600\/min\n +tpm +400k\/min\n/)
    },
  )

  story(
    'A month-end file with money',
    'Finance needs the spend of every customer as a file: one row per customer, resource and limit, with refusals. Amounts are exact: reservations are settled, and refunds are subtracted. The rows of the kind `own` can be added up. This month is not over, so its rows are marked as open.',
    async () => {
      const {namespace} = stack
      await namespace.setLimits({level: 'resource', resource: 'image'}, defineLimits(['usd=$2/month@UTC']))
      const lanes = [
        {entity: 'cust-21', consume: {usd: 40_000}, settle: {usd: -12_501}, most: 40},
        {entity: 'cust-22', consume: {usd: 300_000}, most: 20},
        {entity: 'cust-23', consume: {usd: 90_000}, settle: {usd: 7_250}, most: 30},
      ].map(lane => ({...lane, resource: 'image', pauseMs: 20}))
      stack.send(...lanes)
      const truth = await Promise.all(
        lanes.map(async ({entity, consume, settle, most}) => {
          const {admitted, refused} = await stack.until(
            `${entity} image`,
            tally => tally.admitted + tally.refused === most,
          )
          const consumed = admitted * (consume.usd + (settle?.usd ?? 0))
          return {entity, requests: admitted, consumed, refused, refusedTokens: refused * consume.usd}
        }),
      )
      const month = `${new Date().toISOString().slice(0, 7)}-01`
      const command = `zael usage export --window monthly --since ${month}`
      const ofLanes = ({rows}: JsonOutput) => rows.filter((row: JsonOutput) => row.resource === 'image')
      const count = (rows: JsonOutput[]) => rows.reduce((sum, row) => sum + row.requests + row.refused, 0)
      await stack.untilShown(command, result => count(ofLanes(result)) === 90)
      const exact = JSON.parse((await stack.run(`${command} --json`)).stdout)
      expect(ofLanes(exact)).toMatchObject(truth.map(figures => ({...figures, limit: 'usd', unit: 'USD', open: true})))
      const spent = ofLanes(exact).map(({amount}: JsonOutput) => Number(amount))
      expect(spent).toEqual(truth.map(({consumed}) => consumed / 1e6))

      const columns = '--columns entity,resource,limit,unit,consumed,amount,requests,refused,refused-amount,kind'
      const {stdout, stderr} = await stack.run(`${command} ${columns}`)
      stack.note(`$ ${command} ${columns} > month.csv\n${stderr}`)
      const [titles, ...rows] = stdout.trimEnd().split('\n')
      const money = rows.filter(row => row.includes(',image,'))
      expect(money[0]).toBe('cust-21,image,usd,USD,1099960,1.09996,40,0,0,own')
      expect(money).toHaveLength(3)
      // Nothing is counted for a customer and for a team.
      expect(new Set(money.map(row => row.split(',').at(-1)))).toEqual(new Set(['own']))
      // Every customer is in the file.
      const listed = new Set(rows.map(row => row.split(',')[0]))
      expect(CUSTOMERS.filter(entity => !listed.has(entity))).toEqual([])
      stack.note(`$ grep -e entity, -e ,usd, month.csv\n${[titles, ...money].join('\n')}`)
      // Not on the page, which shifts times: a quota would seem to reset in the middle of a day.
      expect((await stack.run('zael usage show cust-23 --resource image --window monthly')).stdout).toMatch(
        /usd +\$\d\.\d+ +\$2 +\d+ % [\s\S]*Quota usd of image now: \$\d\.\d+ of \$2 used/,
      )
    },
  )

  story(
    'A budget changed within the month',
    'A customer has spent $8 of $10 and needs more this month. The spending counts against the new budget at once: of $20, $12 are left. The customer spends them. Then the budget is lowered to $15, so it is $5 overdrawn. An amount alone, such as `usd=$20`, keeps the period.',
    async () => {
      const {namespace} = stack
      await namespace.setLimits({level: 'resource', resource: 'video'}, defineLimits(['usd=$10/month@UTC']))
      const lane = {entity: 'cust-24', resource: 'video', consume: {usd: 1_000_000}, pauseMs: 10}
      stack.send({...lane, most: 8})
      await stack.until('cust-24 video', ({admitted}) => admitted === 8)
      const raised = await stack.type("zael limits set --entity cust-24 --resource video 'usd=$20'")
      expect(raised).toMatch(/usd +\$10\/month@UTC → \$20\/month@UTC/)
      expect(raised).toContain('usd of cust-24 for video: $8 used, left $2 → $12')
      stack.send({...lane, most: 20})
      const {admitted, refused} = await stack.until('cust-24 video', tally => tally.admitted + tally.refused === 20)
      expect({admitted, refused}).toEqual({admitted: 12, refused: 8})
      const lowered = await stack.type("zael limits set --entity cust-24 --resource video 'usd=$15'")
      expect(lowered).toContain('usd of cust-24 for video: $20 used, left $0 → -$5')
    },
  )

  story(
    'A gateway is killed while it streams',
    'A gateway dies at 3 a.m. with three open streams (`kill -9`). `zael why` and `zael holders list` show which process holds the slots of its customer. Other gateways return them within 45 s of their first refusal. Nobody has to run a command.',
    async () => {
      await stack.namespace.setLimits(
        {level: 'resource', resource: 'streams'},
        defineLimits(['rpm=600/min', 'parallel=3/inflight']),
      )
      await stack.killGateway()
      stack.send({entity: 'cust-05', resource: 'streams', consume: {rpm: 1}, pauseMs: 150})
      await stack.until('cust-05 streams', ({refused}) => refused > 0)
      const why = await stack.type('zael why cust-05 streams')
      expect(why).toMatch(/^parallel of cust-05 refuses: 3 of 3 in flight\n[\s\S]* held by .* \(pid \d+\) 3, /m)
      expect(await stack.type('zael holders list --slots')).toMatch(/ cust-05 · streams parallel 3 {2}/m)
      await stack.until('cust-05 streams', ({admitted}) => admitted > 2)
      expect(await stack.type('zael bucket show cust-05 --resource streams')).toMatch(/^parallel +[01] of 3 in flight/m)
    },
  )

  story(
    'An organization runs out of its budget',
    'A key gets 429 errors, although it has spent little. The namespace charges every level (`zael namespace set default --levels all`): key, user, team and organization. `zael why` names the level that refuses. `zael usage top` shows who spent its budget, level by level.',
    async () => {
      const {namespace} = stack
      await namespace.setLimits({level: 'resource', resource: 'llm'}, defineLimits(['usd=$50/30day!']))
      await namespace.entities.create({id: 'acme', name: 'Acme'})
      await namespace.setLimits({level: 'entity', entity: 'acme', resource: 'llm'}, defineLimits(['usd=$10/30day!']))
      const parents = {
        ...{'acme-search': 'acme', 'acme-research': 'acme'},
        ...{ada: 'acme-search', ben: 'acme-search', eve: 'acme-research'},
        ...{'ada-laptop': 'ada', 'ben-laptop': 'ben', 'eve-laptop': 'eve', 'eve-batch': 'eve'},
      }
      for (const [id, parent] of Object.entries(parents)) await namespace.entities.create({id, parent, cascade: true})
      const played = async (entity: string, usd: number, most: number) => {
        stack.send({entity, resource: 'llm', consume: {usd}, pauseMs: 10, most})
        const tally = await stack.until(`${entity} llm`, ({admitted, refused}) => admitted + refused === most)
        return {entity, usd: tally.admitted * usd, refused: tally.refused}
      }
      const keys = [
        ...(await Promise.all([played('ada-laptop', 500_000, 4), played('ben-laptop', 250_000, 4)])),
        ...[await played('eve-laptop', 100_000, 5), await played('eve-batch', 200_000, 42)],
        await played('ada-laptop', 500_000, 10),
      ]
      expect(keys.map(({usd, refused}) => [usd / 1e6, refused])).toEqual([
        [2, 0],
        [1, 0],
        [0.5, 0],
        [6.4, 10],
        [0, 10],
      ])

      const pathOf = (entity: string): string[] => {
        const parent = parents[entity as keyof typeof parents]
        return parent === undefined ? [entity] : [entity, ...pathOf(parent)]
      }
      /** Of the keys below an entity. */
      const sum = (entity: string, figure: 'usd' | 'refused') =>
        keys.reduce((total, key) => total + (pathOf(key.entity).includes(entity) ? key[figure] : 0), 0)
      const top = async (parent: string, refused: (entity: string) => number) => {
        const command = `zael usage top ${parent} --by entity,usd --resource llm`
        const members = Object.entries(parents).flatMap(([entity, of]) =>
          of === parent ? [{entity, byParent: refused(entity), tokens: sum(entity, 'usd')}] : [],
        )
        await stack.untilShown(command, ({consumers}) => {
          const shown = consumers.map(({entity, refused: {byParent}, limits: [{tokens}]}: JsonOutput) => {
            return {entity, byParent, tokens}
          })
          return members.every(member => shown.some((each: JsonOutput) => isDeepStrictEqual(each, member)))
        })
        return stack.type(command)
      }

      await stack.untilShown('zael why ada-laptop llm', ({refused}) => refused.byParent === 10)
      const why = await stack.type('zael why ada-laptop llm')
      expect(why).toMatch(/^usd of the parent acme refuses, [\s\S]* level +\$0\.10 of \$10 left, \$0\.50 requested/m)
      expect(why).toContain('consumed by  acme-research $6.90, acme-search $3 (')
      expect(why).toContain('Requests of ada-laptop also charge ada, acme-search and acme.')
      expect(await top('acme', () => 0)).toMatch(/acme-research +70 % .* 37 {2}usd \$6\.90\n/)
      await top('acme-research', () => 0)
      expect(await top('eve', key => sum(key, 'refused'))).toMatch(/eve-batch +93 % .* 32 {2}usd \$6\.40 +10 /)
      expect(sum('acme', 'usd') / 1e6).toBe(9.9)
      await stack.type("zael bucket top-up acme llm 'usd=$5' --yes")
      stack.send({entity: 'ada-laptop', resource: 'llm', consume: {usd: 500_000}, pauseMs: 10, most: 20})
      await stack.until('ada-laptop llm', ({admitted}) => admitted > 0)
    },
  )

  it('change one limit under traffic without failing a customer or losing another limit', async () => {
    /** Processes follow a change within a second. */
    const follows = async (unlimited: readonly string[]) => {
      const {admitted} = await stack.until('cust-09 batch', () => true)
      await stack.until(
        'cust-09 batch',
        tally => tally.admitted > admitted + 2 && isDeepStrictEqual(tally.unlimited, unlimited),
      )
    }
    const apply = async (command: string, limits: readonly string[], unlimited: readonly string[]) => {
      const {code, stderr} = await stack.run(`zael ${command} --entity cust-09 --resource batch`)
      expect({command, code, stderr}).toEqual({command, code: 0, stderr: ''})
      const result = await stack.run('zael limits resolve cust-09 batch --json')
      expect(JSON.parse(result.stdout).limits.map(({text}: {text: string}) => text)).toEqual(limits)
      await follows(unlimited)
    }
    const [rpm, tpd] = ['rpm=6k/min', 'tpd=400k/day']
    await apply('limits set tpd=400k/day', [rpm, tpd], [])
    // A requested limit that is not configured is not enforced, and is not an error.
    await apply('limits unset rpm --yes', [tpd], ['rpm'])
    await apply('limits set rpm=6k/min', [rpm, tpd], [])
    await apply('limits set --only tpd=400k/day --yes', [tpd], ['rpm'])
    await apply('limits unset --all --yes', [rpm, 'tpd=200k/day'], [])
    expect((await stack.report()).errors).toEqual([])
  })
})
