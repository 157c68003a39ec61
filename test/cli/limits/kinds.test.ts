import {mkdtemp, readFile, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {expect, it} from 'vitest'
import {Repository} from '../../../src/lib/repository/repository.js'
import {tableCli} from '../../e2e/table-cli.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'

const TEXTS = [
  'a=10k/day@Europe/Berlin,5k@"* * * * 6,7",soft',
  'b=200/5hour!',
  'c=100k/min:200k,x0.1@"* 22,23 * * * Europe/Berlin"',
  'd=5/min',
  'parallel=20/inflight',
  'usd=$500/month@Europe/Berlin',
]

describeOnEngine('limits of all kinds on the command line', () => {
  const table = useTable()
  const cli = tableCli(table)

  it('read back as set, from every command and through a manifest', async () => {
    await new Repository({stack: table.name, transport: table.transport}).namespaces.register('default')
    const set = await cli.tell(`limits set --resource gpt-4 ${TEXTS.map(text => `'${text}'`).join(' ')}`)
    const texts = (limits: {text: string}[]) => limits.map(({text}) => text)
    expect(set.changes.map(({after}: {after: {text: string}}) => after.text)).toEqual(TEXTS)
    expect(texts((await cli.tell('limits get --resource gpt-4')).limits)).toEqual(TEXTS)
    expect(texts((await cli.tell('limits list')).configs[0].limits)).toEqual(TEXTS)
    expect(texts((await cli.tell('limits resolve user-1 gpt-4')).limits)).toEqual(TEXTS)
    const [, quota, , , slots, money] = (await cli.tell('limits get --resource gpt-4')).limits
    expect(quota).toMatchObject({refillAmount: 0, reset: {afterSeconds: 18_000}})
    expect(slots).toEqual({
      name: 'parallel',
      ...{capacity: 20, refillAmount: 0, refillPeriodSeconds: 1, inFlight: true},
      text: 'parallel=20/inflight',
    })
    expect(money).toMatchObject({capacity: 500_000_000, unit: 'USD', timeZone: 'Europe/Berlin'})
    const {stdout} = await cli.run('limits get --resource gpt-4')
    for (const text of TEXTS) expect(stdout).toContain(text.slice(text.indexOf('=') + 1))

    const folder = await mkdtemp(join(tmpdir(), 'zael-kinds-'))
    try {
      const file = join(folder, 'limits.yaml')
      await writeFile(file, (await cli.run('limits export')).stdout)
      expect((await cli.tell(`limits plan -f ${file}`)).changes).toEqual([])
      await writeFile(file, (await readFile(file, 'utf8')).replace('20/inflight', '30/inflight'))
      const drift = await cli.run(`limits diff -f ${file}`)
      expect([drift.code, drift.stdout]).toEqual([6, expect.stringContaining('20/inflight')])
      await cli.run(`limits apply -f ${file} --yes`)
      expect(texts((await cli.tell('limits get --resource gpt-4')).limits)).toContain('parallel=30/inflight')
    } finally {
      await rm(folder, {recursive: true})
    }
  })

  it('show the kind of a quota, its next reset, and the rate in force now', async () => {
    const limits = `q=10/day@UTC s=20/5h! 'r=100/min,x0.5@"* * * * *"'`
    await cli.run(`limits set --resource quotas ${limits}`)
    await cli.run('acquire user-1 quotas q=4 s=3 r=1')
    const [{limits: levels}] = (await cli.tell('bucket list --resource quotas')).buckets
    const midnight = new Date(Math.ceil((Date.now() + 1) / 86_400_000) * 86_400_000).toISOString()
    expect(levels).toMatchObject([
      {name: 'q', level: 6, capacity: 10, quota: 'calendar', resetsAt: midnight},
      {name: 'r', capacity: 50},
      {name: 's', level: 17, quota: 'session', resetsAt: expect.any(String)},
    ])
    expect(levels[1]).not.toHaveProperty('quota')
    expect(await cli.show('bucket show user-1 --resource quotas', 120)).toMatch(/RESETS[\s\S]*session, in [45] h/)
  })

  it('mention quotas once, when a rate per day is new', async () => {
    const note = async (limits: string) =>
      / (?:is a rate|are rates) .*/.exec((await cli.run(`limits set --resource daily ${limits}`)).stdout)?.[0]
    expect(await note('rpd=200/day --dry-run')).toBe(
      ' is a rate and refills continuously. For a quota that resets at midnight, give /day@UTC.',
    )
    expect(await note('rpd=200/day tpd=1k/2day')).toMatch(/^ are rates and refill continuously/)
    for (const limits of ['rpd=300/day', 'rpd=400', 'q=5/day@UTC', 'b=200/day:400', 'm=5/min', 'm=5/day --for 2h'])
      expect([limits, await note(limits)]).toEqual([limits, undefined])
  })

  it('keep the kind of an in-flight limit for an amount alone, and say what a change of the kind does', async () => {
    await cli.run('limits set --resource slots parallel=20/inflight a.b=3/inflight')
    const {stdout, stderr} = await cli.run('limits set --resource slots parallel=30')
    expect(stdout).toContain('20/inflight → 30/inflight')
    expect(stdout).toContain('parallel /inflight')
    // Clients of zae-limiter do not see these limits, so their names do not matter.
    expect(stderr).toBe('')
    const asked = async (limit: string) =>
      (await cli.tell(`limits set --resource slots ${limit} --dry-run`)).confirmation
    expect(await asked('parallel=30/min')).toBe(
      'This changes parallel from an in-flight limit (30/inflight) to a rate (30/min): it starts full',
    )
    await cli.run('limits set --resource slots rpm=5/min')
    expect(await asked('rpm=5/inflight')).toBe(
      'This changes rpm from a rate (5/min) to an in-flight limit (5/inflight): requests already in flight do not count',
    )
    expect(await cli.fail('limits set --resource slots parallel=40 --for 1h')).toMatchObject({
      code: 2,
      error: {code: 'until.in-flight', hint: 'Change it without an end, and set it back later.'},
    })
    expect((await cli.run('limits unset parallel --resource slots --yes')).code).toBe(0)
    expect((await cli.tell('limits get --resource slots')).limits.map(({name}: {name: string}) => name)).toEqual([
      'a.b',
      'rpm',
    ])
  })

  it('tell that each resource has its own slots', async () => {
    const note = async (limits: string) =>
      /Each resource .*/.exec((await cli.run(`limits set --system --dry-run ${limits}`)).stdout)?.[0]
    expect(await note('parallel=20/inflight')).toBe('Each resource has its own slots of parallel.')
    expect(await note('parallel=20/inflight rpd=5/day@UTC')).toBe(
      'Each resource has its own allowance of rpd and its own slots of parallel.',
    )
    expect(await note('rpm=5/min')).toBeUndefined()
  })

  it('warn once when a new name cannot be charged by clients of 0.10', async () => {
    const set = 'limits set --resource named my-limit=5/min a.b=5/min fine=5/min'
    const {code, stderr} = await cli.run(set)
    expect([code, stderr.match(/Warning/g)?.length]).toEqual([0, 1])
    expect(stderr).toContain('(a.b and my-limit)')
    expect((await cli.run(set)).stderr).toBe('')
  })

  it('are refused with the position of the mistake', async () => {
    const {code, error} = await cli.fail("limits set --resource gpt-4 'a=5/day@Europe/Berlim'")
    expect([code, error.code]).toEqual([2, 'limit.syntax'])
    expect(error.message).toMatch(/time zone "Europe\/Berlim" does not exist; did you mean "Europe\/Berlin"\?\n/)
    expect(error.message).toContain('\n          ^^^^^^^^^^^^^')
  })
})
