import {mkdtemp, rm, writeFile} from 'node:fs/promises'
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
    const [, quota, , , money] = (await cli.tell('limits get --resource gpt-4')).limits
    expect(quota).toMatchObject({refillAmount: 0, reset: {afterSeconds: 18_000}})
    expect(money).toMatchObject({capacity: 500_000_000, unit: 'USD', timeZone: 'Europe/Berlin'})
    const {stdout} = await cli.run('limits get --resource gpt-4')
    for (const text of TEXTS) expect(stdout).toContain(text.slice(text.indexOf('=') + 1))

    const folder = await mkdtemp(join(tmpdir(), 'zael-kinds-'))
    try {
      const file = join(folder, 'limits.yaml')
      await writeFile(file, (await cli.run('limits export')).stdout)
      expect((await cli.tell(`limits plan -f ${file}`)).changes).toEqual([])
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
