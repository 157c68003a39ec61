import {readdir, readFile} from 'node:fs/promises'
import {join} from 'node:path'
import {expect, it} from 'vitest'
import {noCounts} from '../../src/lib/aggregator/counts.js'
import {embeddedMetrics} from '../../src/lib/aggregator/metrics.js'
import {ROOT, run} from '../e2e/zael.js'
import {stackWith} from '../infra/stack-model.js'

const TEXT = await readFile(join(ROOT, 'docs', 'deploying.md'), 'utf8')

it('has a table of options that is current', async () => {
  const outcome = await run(process.execPath, ['.ci/options-doc.js', '--check'], {})
  expect(outcome).toEqual({code: 0, stdout: '', stderr: ''})
})

it('names commands and flags that there are', async () => {
  const {commands} = JSON.parse(await readFile(join(ROOT, 'oclif.manifest.json'), 'utf8'))
  const lines = TEXT.matchAll(/(?:\$ |`)zael ([^`\n#]+)/g)
  let checked = 0
  for (const [line, rest = ''] of lines) {
    const [first = '', second = ''] = rest.trim().split(/\s+/)
    const command = commands[`${first}:${second}`] ?? commands[first]
    // A topic alone, such as "zael migrate".
    if (!command && Object.keys(commands).some(id => id.startsWith(`${first}:`))) continue
    expect([line, command !== undefined]).toEqual([line, true])
    const known = Object.values<{name: string; allowNo?: boolean}>(command.flags)
    for (const [, flag = ''] of rest.matchAll(/ --([a-z-]+)/g)) {
      const isKnown = known.some(({name, allowNo}) => flag === name || (allowNo && flag === `no-${name}`))
      expect([line, flag, isKnown]).toEqual([line, flag, true])
      checked++
    }
  }
  expect(checked).toBeGreaterThan(10)
})

it('names every call to CloudFormation among the permissions', async () => {
  const folder = join(ROOT, 'src', 'lib', 'infra')
  const files = await Promise.all((await readdir(folder)).map(name => readFile(join(folder, name), 'utf8')))
  const imports = files.flatMap(
    text => /import \{([^}]*)\} from '@aws-sdk\/client-cloudformation'/.exec(text)?.[1] ?? [],
  )
  const called = imports.flatMap(names => [
    ...names.matchAll(/\b(?:paginate)?([A-Z][A-Za-z]+?)(?:Command)?\b(?=,|\s|$)/g),
  ])
  const actions = new Set(called.filter(([name]) => /^paginate|Command$/.test(name)).map(([, action]) => action))
  expect(actions).toContain('ExecuteChangeSet')
  expect([...actions].filter(action => !TEXT.includes(`\`${action}\``))).toEqual([])
})

it('counts what there is: alarms, metrics, policies', () => {
  const {Resources} = stackWith()
  const count = (type: string) => Object.values(Resources).filter(({Type}) => Type === type).length
  expect(TEXT).toContain(`| alarms | ${count('AWS::CloudWatch::Alarm')} × 0.10 |`)
  const [{Metrics}] = (embeddedMetrics(noCounts(), 's', 0) as {_aws: {CloudWatchMetrics: [{Metrics: unknown[]}]}})._aws
    .CloudWatchMetrics
  expect(TEXT).toContain(`| its metrics | ${Metrics.length} × 0.30 |`)
  for (const {Properties} of Object.values(Resources)) {
    const {ManagedPolicyName} = Properties ?? {}
    if (ManagedPolicyName) expect(TEXT).toContain(`\`${ManagedPolicyName.replace('prod', 'STACK')}\``)
  }
})

it('its arithmetic is right', () => {
  const seconds = 2_592_000
  const perMillion = 0.625
  const monthly = (writes: number, everySeconds: number) => (writes / everySeconds) * (seconds / 1e6) * perMillion
  /** Different ones among so many draws from 1,000. */
  const buckets = (records: number) => Math.round(1000 * (1 - 0.999 ** records))
  const has = (amount: number) => expect(TEXT).toContain(`| ${amount.toFixed(2)} |`)
  expect([buckets(500), buckets(2000)]).toEqual([394, 865])
  const parts = [
    monthly(100, 1),
    monthly(3 * 394, 5),
    518_400 * (0.2 / 1e6 + 0.5 * 0.0000133334),
    9 * 0.3,
    ((1000 * (24 * 90 + 90 + 3) * 0.4) / 1e6) * 0.45,
    3.7,
  ]
  for (const part of parts) has(part)
  const total = parts.reduce((sum, part) => sum + Number(part.toFixed(2)), 0)
  expect(TEXT).toContain(`| **${total.toFixed(2)}** |`)
  has(monthly(394, 5))
  has(monthly(3 * 865, 20))
  has(monthly(865, 20))
})
