import {expect, it, vi} from 'vitest'
import {SwitchCommand} from '../../../src/lib/cli/limits/switch-command.js'
import {Repository} from '../../../src/lib/repository/repository.js'
import {schemaProblems} from '../../e2e/schemas.js'
import {tableCli} from '../../e2e/table-cli.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'

describeOnEngine('the switch on the command line', () => {
  const table = useTable()
  const cli = tableCli(table)

  it('is shown by every command that shows limits or buckets, with the command that lifts it', async () => {
    await new Repository({stack: table.name, transport: table.transport}).namespaces.register('default')
    await cli.run('limits set --resource gpt-4 rpm=100/min')
    await cli.run('acquire user-1 gpt-4 rpm=1')
    await cli.run('acquire user-1 gpt-4 rpm=1')
    await cli.run('resource disable gpt-4')
    expect(await cli.show('limits list', 100)).toMatch(/gpt-4 +disabled rpm=100\/min$/m)
    expect(await cli.show('limits resolve user-1 gpt-4', 100)).toMatch(/gpt-4 +applies +disabled rpm=100\/min$/m)
    expect(await cli.show('bucket list --resource gpt-4', 100)).toMatch(
      /^ENTITY +ACCESS +LIMIT.*\nuser-1 +disabled +rpm/,
    )
    expect(await cli.show('bucket show user-1', 100)).toContain('Bucket of user-1 · gpt-4, disabled')
    const watched = await cli.show('watch --once --filter status:disabled', 100)
    expect(watched).toMatch(/^disabled +user-1 +gpt-4 /m)
    expect(watched).toContain('1 bucket, 0 over, 0 near, 1 disabled')
    expect(await cli.tell('watch --once')).toMatchObject({totals: {disabled: 1}, buckets: [{status: 'disabled'}]})
    expect(await cli.show('audit list', 200)).toContain('disabled: not set → yes')
    expect(await cli.show('why user-1 gpt-4', 100)).toMatch(
      /is disabled for user-1.*\n.*\n {2}set at {3}20.* UTC.*\nuser-1: no refusals are recorded since .*\n\nNext:\n {2}zael entity exempt user-1 --resource gpt-4 .*\n {2}zael resource enable gpt-4 /,
    )
    const why = JSON.parse((await cli.run('why user-1 gpt-4 --json')).stdout)
    expect(schemaProblems('why', why)).toEqual([])
    expect(why).toMatchObject({
      admitted: false,
      retryAfterMs: null,
      disabled: {setFor: {level: 'resource'}},
      limits: [],
    })
    expect((await cli.tell('limits list')).configs[0].access).toBe('disabled')
    expect((await cli.tell('limits resolve user-1 gpt-4')).levels[2].access).toBe('disabled')
    await cli.run('resource enable gpt-4')
    expect(await cli.show('bucket list --resource gpt-4', 100)).not.toContain('ACCESS')
  })

  it('shows a bypass in every command as well, and how to end it', async () => {
    await cli.run('limits set --resource files rpm=3/min')
    await cli.run('acquire user-1 files rpm=2')
    const changed = JSON.parse((await cli.run('resource bypass files --json')).stdout)
    expect(schemaProblems('resource bypass', changed)).toEqual([])
    expect(changed).toMatchObject({access: {before: null, after: 'bypass'}, buckets: {updated: 1, failed: 0}})
    expect(await cli.show('acquire user-1 files rpm=50', 100)).toMatch(
      /^Admitted: files is bypassed for user-1; 50 rpm was counted, not charged\n.*\n.*\nrpm +user-1 +50 +1 +3 +now/,
    )
    expect(await cli.show('acquire user-1 files rpm=50 --dry-run', 100)).toMatch(
      /^Would be admitted: files is bypassed for user-1; 50 rpm would be counted, not charged/,
    )
    const acquired = JSON.parse((await cli.run('acquire user-1 files rpm=7 --json')).stdout)
    expect(schemaProblems('acquire', acquired)).toEqual([])
    expect(acquired).toMatchObject({admitted: true, metered: true, bypassed: true})
    expect(await cli.show('limits list', 100)).toMatch(/files +bypass rpm=3\/min$/m)
    expect(await cli.show('limits get --resource files', 100)).toMatch(/access +bypass/)
    expect(await cli.show('limits resolve user-1 files', 100)).toMatch(/files +applies +bypass rpm=3\/min$/m)
    expect(await cli.show('bucket list --resource files', 100)).toMatch(
      /^ENTITY +ACCESS +LIMIT.*\nuser-1 +bypassed +rpm/,
    )
    expect(await cli.show('bucket show user-1 --resource files', 100)).toContain('Bucket of user-1 · files, bypassed')
    const {buckets} = JSON.parse((await cli.run('bucket list --resource files --json')).stdout)
    expect(Date.parse(buckets[0].bypassedUntil)).toBeGreaterThan(Date.now())
    expect(await cli.show('audit list', 200)).toContain('disabled: not set → bypass')
    expect(await cli.show('why user-1 files rpm=9', 100)).toMatch(
      /^user-1, files: a request for 9 rpm is admitted now\.\n\nrpm of user-1 is bypassed\n[\s\S]*\n\nfiles is bypassed for user-1: .*\n.*\n {2}set at .*\n\nNext:\n {2}zael resource clear files /,
    )
    const why = JSON.parse((await cli.run('why user-1 files rpm=9 --json')).stdout)
    expect(schemaProblems('why', why)).toEqual([])
    expect(why).toMatchObject({
      admitted: true,
      disabled: null,
      bypassed: [{entity: 'user-1', setFor: {level: 'resource'}}],
    })
    expect((await cli.run('verify --json')).code).toBe(0)
    await cli.run('resource clear files')
    expect(JSON.parse((await cli.run('why user-1 files rpm=3 --json')).stdout)).toMatchObject({bypassed: []})
    expect((await cli.run('entity bypass user-33 --resource files')).stderr).toContain('Unknown entity "user-33"')
    await cli.run('entity clear user-33 --resource files')
  })

  it('warns about an unknown name, with the nearest known one', async () => {
    const {code, stderr, stdout} = await cli.run('resource disable gtp-4')
    expect([code, stderr]).toEqual([
      0,
      'Warning: Unknown resource "gtp-4": nothing has used it yet. Did you mean "gpt-4"?\n',
    ])
    expect(stdout).toContain('(none) → disabled')
    expect((await cli.run('resource disable gpt-4')).stderr).toBe('')
    await cli.run('entity create user-2')
    expect((await cli.run('entity disable user-22')).stderr).toContain('Did you mean "user-2"?')
    expect((await cli.run('entity disable user-2')).stderr).toBe('')
    // The warning is in the JSON too, as its schema says.
    const told = JSON.parse((await cli.run('entity disable user-23 --json')).stdout)
    expect(schemaProblems('entity disable', told)).toEqual([])
    expect(told.warnings).toEqual([
      'Unknown entity "user-23": nothing has used it yet. Did you mean "user-2" or "user-22"?',
    ])
    for (const id of ['user-22', 'user-23', 'user-2']) await cli.run(`entity enable ${id}`)
  })

  it('warns about an unknown name before it shows the change', async () => {
    const shown: {warn(text: string): void; print(lines: string[]): void} = SwitchCommand.prototype as never
    const [warn, print] = [vi.spyOn(shown, 'warn'), vi.spyOn(shown, 'print')]
    await cli.run('entity disable evee')
    await cli.run('entity enable evee')
    expect(warn.mock.invocationCallOrder[0]).toBeLessThan(print.mock.invocationCallOrder[0] ?? 0)
    vi.restoreAllMocks()
  })

  it('is removed by enable only if it is a block: a later switch of the resource applies again', async () => {
    await cli.run('limits set --resource chat rpm=100/min')
    await cli.run('entity create user-9')
    await cli.run('entity disable user-9')
    expect(await cli.tell('entity enable user-9')).toMatchObject({access: {before: 'disabled', after: null}})
    await cli.run('resource disable chat')
    expect((await cli.run('acquire user-9 chat rpm=1')).code).toBe(6)
    const none = await cli.show('entity enable user-9', 200)
    expect(none).toMatch(/access +it has no block; nothing was changed\n {2}live buckets +0 updated/)
    expect(none).toMatch(/Next:\n {2}zael entity exempt user-9 --resource chat .* although chat is disabled/)
    expect(await cli.tell('entity exempt user-9 --resource chat')).toMatchObject({access: {after: 'enabled'}})
    expect((await cli.run('acquire user-9 chat rpm=1')).code).toBe(0)
    const exempt = await cli.show('entity enable user-9 --resource chat', 200)
    expect(exempt).toMatch(/access +enabled, unchanged/)
    expect(exempt).toMatch(/Next:\n {2}zael entity clear user-9 --resource chat .* remove the switch \(enabled\)/)
    await cli.run('entity clear user-9 --resource chat')
    await cli.run('resource bypass chat')
    expect(await cli.show('resource enable chat', 200)).toMatch(
      /access +bypass, unchanged[\s\S]*Next:\n {2}zael resource clear chat .* remove the switch \(bypass\)/,
    )
    expect(await cli.tell('resource clear chat')).toMatchObject({access: {before: 'bypass', after: null}})
  })

  it('expires with --for, and shows its end and reason to operators only', async () => {
    await cli.run('limits set --resource mail rpm=100/min')
    await cli.run('entity create user-8')
    const set = await cli.tell(`entity disable user-8 --for 2h --reason 'chargeback 4711'`)
    expect(set).toMatchObject({access: {before: null, after: 'disabled'}, reason: 'chargeback 4711'})
    expect(Date.parse(set.until) - Date.now()).toBeGreaterThan(7_100_000)
    const end = `${set.until.slice(0, 16).replace('T', ' ')} UTC`
    expect(await cli.show('limits get --entity user-8', 200)).toContain(
      `disabled until ${end}\n  reason  chargeback 4711`,
    )
    const why = await cli.show('why user-8 mail', 200)
    expect(why).toContain(`mail is disabled for user-8: every request is refused until ${end}.`)
    expect(why).toMatch(/reason +chargeback 4711/)
    const told = JSON.parse((await cli.run('why user-8 mail --json')).stdout)
    expect(schemaProblems('why', told)).toEqual([])
    expect(told.disabled).toMatchObject({until: set.until, reason: 'chargeback 4711'})
    const shown = await cli.show('entity show user-8', 300)
    expect(shown).toMatch(/Set for entity user-8 for every resource at 20.* UTC by \S+, until /)
    expect(shown).toContain(`until ${end}. Reason: chargeback 4711`)
    expect(told.disabled.setBy).toEqual(expect.any(String))
    expect((await cli.tell('entity show user-8')).resources[0].access).toMatchObject({reason: 'chargeback 4711'})
    expect((await cli.tell('limits resolve user-8 mail')).access).toMatchObject({until: set.until})
    expect(await cli.show('limits list --all', 200)).toMatch(/user-8 +- +disabled until /)
    expect(await cli.show('audit list user-8 --limit 1', 300)).toContain(
      `disabled: not set → yes; reason: chargeback 4711; until: `,
    )
    const refused = await cli.run('acquire user-8 mail rpm=1 --json')
    expect([refused.code, refused.stdout.includes('chargeback')]).toEqual([6, false])
    // Not in a manifest, which states what stays.
    expect((await cli.run('limits export')).stdout).not.toMatch(/user-8:\n(?: {4}.*\n)*? {4,}.*disabled/)
    expect(await cli.tell('entity bypass user-8 --for 90m')).toMatchObject({access: {after: 'bypass'}, reason: null})
    expect(await cli.show('why user-8 mail', 200)).toMatch(
      /admitted and counted, but not charged, until \d{4}-\d\d-\d\d /,
    )
    expect(await cli.tell('resource disable mail --for 90m')).toMatchObject({until: expect.any(String)})
    expect(await cli.tell('resource enable mail')).toMatchObject({until: null, access: {after: null}})
    expect(await cli.fail('entity disable user-8 --for soon')).toMatchObject({code: 2})
    expect(await cli.fail(`entity disable user-8 --reason ' '`)).toMatchObject({
      code: 2,
      error: {code: 'switch.reason'},
    })
    await cli.run('entity clear user-8')
  })

  it('is shown without limits, is not removed by limits unset, and leaves no record once cleared', async () => {
    expect(await cli.show('limits get --resource gtp-4', 100)).toMatch(/access +disabled/)
    expect((await cli.fail('limits unset --all --yes --resource gtp-4')).error.code).toBe('limits.missing')
    await cli.run('resource clear gtp-4')
    expect(await cli.show('limits list', 100)).not.toContain('gtp-4')
    expect((await cli.fail('limits get --resource gtp-4')).code).toBe(3)
  })
})
