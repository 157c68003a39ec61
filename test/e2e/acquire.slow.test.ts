import {spawn} from 'node:child_process'
import {once} from 'node:events'
import {beforeAll, expect, inject, it} from 'vitest'
import {parseLimit} from '../../src/lib/core/limits/limit-text.js'
import {type NamespaceRepository, Repository} from '../../src/lib/repository/repository.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {RunningHere} from './running-zael.js'
import {schemaProblems} from './schemas.js'
import {tableCli} from './table-cli.js'
import {BIN, zael} from './zael.js'

describeOnEngine('requests from the shell', () => {
  const table = useTable()
  const repository = new Repository({stack: table.name, transport: table.transport})
  let namespace: NamespaceRepository
  const cli = tableCli(table)

  beforeAll(async () => {
    await repository.namespaces.register('default')
    namespace = await repository.namespace()
    await namespace.setLimits({level: 'resource', resource: 'gpt-4'}, [
      parseLimit('rpd=100/day'),
      parseLimit('tpd=20k/day'),
    ])
    await namespace.setLimits({level: 'entity', entity: 'team-1', resource: 'gpt-4'}, [parseLimit('rpd=5/day')], {
      replace: true,
    })
    await namespace.setLimits({level: 'resource', resource: 'paid'}, [parseLimit('usd=$1/day@UTC')])
    await namespace.setLimits({level: 'resource', resource: 'slow'}, [parseLimit('rpm=1/4sec')])
    await namespace.entities.create({id: 'team-1'})
    await namespace.entities.create({id: 'user-1', parent: 'team-1', cascade: true})
  })

  /** Tokens taken so far, as stored. */
  const consumed = async (entity: string, limit: string, resource = 'gpt-4'): Promise<number> => {
    const bucket = await namespace.buckets.find(entity, resource)
    const states = (bucket?.shards ?? []).map(each =>
      each.kind === 'bucket' ? each.record.state.limits.get(limit) : undefined,
    )
    return Number(states.reduce((sum, state) => sum + (state?.consumedMilli ?? 0n), 0n)) / 1000
  }

  /** `--json` of a command of one word, checked against its schema. */
  const tell = async (command: string, code = 0) => {
    const outcome = await cli.run(`${command} --json`)
    expect({code: outcome.code, stderr: outcome.stderr}).toEqual({code, stderr: ''})
    const result = JSON.parse(outcome.stdout)
    expect(schemaProblems(command.split(' ')[0] as string, result)).toEqual([])
    return result
  }

  it('are charged and explained in money, in one currency only', async () => {
    expect(await cli.show("acquire payer paid 'usd=$0.75'", 80)).toMatchInlineSnapshot(`
      "Admitted: payer was charged $0.75 usd of paid

      LIMIT  ENTITY  REQUESTED  LEFT   CAPACITY  READY IN
      usd    payer   $0.75      $0.25  $1        now
      "
    `)
    expect(await consumed('payer', 'usd', 'paid')).toBe(750_000)
    expect(await tell("acquire payer paid 'usd=$0.30'", 6)).toMatchObject({admitted: false, consume: {usd: 300_000}})
    expect(await cli.show("why payer paid 'usd=$0.30'", 80)).toContain('$0.25 of $1 left, $0.30 requested')
    for (const command of ['acquire', 'why']) {
      for (const amount of ['usd=€1', 'usd=5', 'usd=$0.0000001']) {
        const {code, error} = await cli.fail(`${command} payer paid '${amount}'`)
        expect([code, error.code]).toEqual([2, expect.stringMatching(/^(limit\.unit|request\.syntax)$/)])
      }
    }
    const {error} = await cli.fail("acquire payer paid 'usd=$2.50'")
    expect(error).toMatchObject({
      code: 'request.too-large',
      message: 'A request of $2.50 usd can never be admitted: payer is limited to $1 for paid.',
      details: {requested: 2_500_000, capacity: 1_000_000, unit: 'USD'},
    })
    expect(error.hint).toContain("zael why payer paid 'usd=$2.50'")
    expect(await consumed('payer', 'usd', 'paid')).toBe(750_000)
  })

  it('are charged, refused at an empty balance, and explained', async () => {
    expect(await tell('acquire user-1 gpt-4 rpd=2 --dry-run')).toMatchObject({admitted: true, dryRun: true})
    expect(await consumed('user-1', 'rpd')).toBe(0)
    expect(await cli.show('acquire user-1 gpt-4 rpd=2 tpd=500', 80)).toMatchInlineSnapshot(`
      "Admitted: user-1 was charged 2 rpd and 500 tpd of gpt-4; its parent team-1 was charged 2 rpd

      LIMIT  ENTITY  REQUESTED    LEFT  CAPACITY  READY IN
      rpd    user-1          2      98       100  now
      tpd    user-1        500  19,500    20,000  now
      rpd    team-1          2       3         5  now
      "
    `)
    expect([await consumed('user-1', 'tpd'), await consumed('team-1', 'rpd')]).toEqual([500, 2])

    expect(await tell('acquire user-1 gpt-4 rpd=3')).toMatchObject({
      admitted: true,
      metered: true,
      parent: 'team-1',
      waitedMs: 0,
      limits: [
        {name: 'rpd', level: 'entity', available: 95},
        {name: 'rpd', level: 'parent', available: 0},
      ],
    })
    const refused = await cli.run('acquire user-1 gpt-4 rpd=1', {COLUMNS: '120'})
    expect(refused.code).toBe(6)
    expect(refused.stdout).toMatch(
      /^Refused: user-1 cannot consume 1 rpd of gpt-4 now\. Retry in 4 h \d+ min\.\n\nLIMIT /,
    )
    expect(refused.stdout).toMatch(/^rpd +team-1 +1 +0 +5 +4 h \d+ min$/m)
    expect(refused.stderr).toContain('zael why user-1 gpt-4 rpd=1')
    expect(await tell('acquire user-1 gpt-4 rpd=1 --dry-run', 6)).toMatchObject({admitted: false, parent: 'team-1'})
    expect(await tell('acquire user-1 gpt-4 rpd=1 --wait 1s', 6)).toMatchObject({admitted: false, waitedMs: 0})
    expect(await consumed('team-1', 'rpd')).toBe(5)

    const why = await tell('why user-1 gpt-4')
    expect(why).toMatchObject({admitted: false, parent: 'team-1', registered: true})
    expect(why.limits.at(-1)).toMatchObject({
      level: 'parent',
      exceeded: true,
      setFor: {level: 'entity', entity: 'team-1', resource: 'gpt-4'},
      shards: [{shard: 0, available: 0, capacity: 5}],
    })
    const words = await cli.show('why user-1 gpt-4 rpd=1', 80)
    expect(words).toContain('  set for      entity team-1 for gpt-4: 5/day\n')
    // The suggested command works.
    const remedy = why.limits.at(-1).remedies.at(-1)
    expect(words).toContain(`  ${remedy.command}  `)
    expect(await zael(remedy.command.split(' ').slice(1))).toMatchObject({code: 0})
    const raised = await tell('why user-1 gpt-4 rpd=1')
    expect(raised.retryAfterMs).toBeLessThanOrEqual(why.retryAfterMs / 2)
  })

  it('are explained for all resources of an entity, with --follow until Ctrl-C', async () => {
    const limits = [parseLimit('rpd=7/day')]
    await namespace.setLimits({level: 'entity', entity: 'looker', resource: 'gpt-4'}, limits, {replace: true})
    const all = await tell('why looker')
    expect(all).toMatchObject({entity: 'looker', resources: [{resource: 'gpt-4', entity: 'looker'}]})
    expect(await cli.show('why looker', 80)).toMatch(/^looker: 1 resource, /)
    const follow = async (...flags: string[]) => {
      const place = ['--stack', table.name, '--endpoint-url', inject('engineEndpoint')]
      const running = new RunningHere(['why', 'looker', '--follow', '--interval', '1s', ...place, ...flags])
      await running.until(/\n.*\n/)
      return running.stop('SIGINT')
    }
    const lines = await follow()
    expect({code: lines.code, stderr: lines.stderr}).toEqual({code: 130, stderr: ''})
    expect(lines.stdout).toMatch(/^(\S+Z {2}looker gpt-4 {2}(refused|fits): .*\n){2,}$/)
    const documents = (await follow('--json')).stdout.trimEnd().split('\n')
    expect(documents.flatMap(line => schemaProblems('why', JSON.parse(line)))).toEqual([])
  })

  it('are explained when they fit', async () => {
    expect(await cli.show('why user-9 slow', 120)).toMatchInlineSnapshot(`
      "user-9, slow: a request for 1 rpm is admitted now.
      user-9 is unknown: it has no record, limits, bucket or usage. Requests above a capacity are not counted. Its first request gets the limits below. Did you mean "user-1"?

      rpm of user-9 has room
        level    1 of 1 left, 1 requested
        set for  resource slow: 1/4sec
      "
    `)
  })

  it('stop waiting on Ctrl-C with 130, without a charge', async () => {
    await cli.run('acquire stopper gpt-4 rpd=100')
    const args = ['acquire', 'stopper', 'gpt-4', 'rpd=1', '--wait', '2d', ...cli.flags]
    const child = spawn(process.execPath, [BIN, ...args], {env: {PATH: process.env.PATH, HOME: '/nowhere'}})
    let stderr = ''
    child.stderr.setEncoding('utf8')
    for await (const chunk of child.stderr) {
      stderr += chunk
      if (stderr.includes('Waiting for ')) break
    }
    const ended = once(child, 'exit')
    child.kill('SIGINT')
    expect(await ended).toEqual([130, null])
    expect(await consumed('stopper', 'rpd')).toBe(100)
  })

  it.each([
    ['acquire user-1 gpt-4 rpd', 'request.syntax'],
    ['acquire user-1 gpt-4 rpd=1000', 'request.too-large'],
    ['acquire user-1 gpt-4 rpd=1 --wait 0s', 'duration.syntax'],
    ['why user-1 gpt-4 rpx=1', 'limit.unknown'],
    ['why user-1 rpd=1', 'why.resource'],
    ['why user-1 --follow --interval 10ms', 'why.interval'],
    ['why user-1 --interval 5s', 'command.usage'],
  ])('reject bad input: %s (%s)', async (command, expected) => {
    const {code, error} = await cli.fail(command)
    expect({code, error: error.code}).toEqual({code: 2, error: expected})
  })

  it.each(['acquire user-1 gpt-44 rpd=1', 'why user-1 gpt-44'])(
    '%s is not found, with what was meant',
    async command => {
      expect(await cli.fail(command)).toMatchObject({
        code: 3,
        error: {code: 'limits.missing', hint: 'Did you mean "gpt-4"?'},
      })
    },
  )

  it('follow the outage policy', async () => {
    const nowhere = ['--stack', 'x', '--endpoint-url', 'http://127.0.0.1:9', '--json']
    const [allowed, blocked] = await Promise.all(
      ['allow', 'block'].map(policy => zael(['acquire', 'a', 'b', 'rpm=1', '--on-unavailable', policy, ...nowhere])),
    )
    expect(allowed?.code).toBe(0)
    expect(JSON.parse(allowed?.stdout ?? '')).toMatchObject({admitted: true, metered: false, limits: []})
    expect(schemaProblems('acquire', JSON.parse(allowed?.stdout ?? ''))).toEqual([])
    expect(blocked?.code).toBe(1)
    expect(JSON.parse(blocked?.stdout ?? '').error.code).toBe('limiter.unavailable')
  })
})
