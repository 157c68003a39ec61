import {readdir, readFile} from 'node:fs/promises'
import {join} from 'node:path'
import {expect, it} from 'vitest'
import {parse} from 'yaml'
import {embeddedMetrics, noCounts} from '../../src/lib/aggregator/metrics.js'
import type {TemplateNode} from '../../src/lib/files/template-yaml.js'
import {RECORDS_PER_CALL} from '../../src/lib/insight/cost/parts.js'
import {ROOT, run} from '../e2e/zael.js'
import {stackWith} from '../infra/template/stack-model.js'

/** The text of every source file of `infra`. */
async function sourcesOfInfra(): Promise<string[]> {
  const folder = join(ROOT, 'src', 'lib', 'infra')
  const names = (await readdir(folder, {recursive: true})).filter(name => name.endsWith('.ts'))
  return Promise.all(names.map(name => readFile(join(folder, name), 'utf8')))
}

const KEY = 'arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab'

const PAGES = ['deploying.md', 'permissions.md', 'operations.md', 'cost.md']

const TEXT = (await Promise.all(PAGES.map(page => readFile(join(ROOT, 'docs', page), 'utf8')))).join('\n')

it.each(['options', 'permissions'])('has a current table of %s', async what => {
  const outcome = await run(process.execPath, ['--import', 'tsx', `.ci/${what}-doc.js`, '--check'], {})
  expect(outcome).toEqual({code: 0, stdout: '', stderr: ''})
})

it('names only existing commands and flags', async () => {
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
  const files = await sourcesOfInfra()
  const imports = files.flatMap(
    text => /import \{([^}]*)\} from '@aws-sdk\/client-cloudformation'/.exec(text)?.[1] ?? [],
  )
  const called = imports.flatMap(names => [
    ...names.matchAll(/\b(?:paginate)?([A-Z][A-Za-z]+?)(?:Command)?\b(?=,|\s|$)/g),
  ])
  const actions = new Set(called.filter(([name]) => /^paginate|Command$/.test(name)).map(([, action]) => action))
  expect(actions).toContain('ExecuteChangeSet')
  expect([...actions].filter(action => !TEXT.includes(`\`cloudformation:${action}\``))).toEqual([])
})

it('counts alarms, metrics and policies correctly', () => {
  const {Resources} = stackWith()
  const count = (type: string) => Object.values(Resources).filter(({Type}) => Type === type).length
  // An alarm costs as much as the metrics that it looks at.
  const measured = Object.values(Resources).flatMap(({Type, Properties: {Metrics = [{MetricStat: true}]}}) =>
    Type === 'AWS::CloudWatch::Alarm' ? Metrics.filter(({MetricStat}: TemplateNode) => MetricStat) : [],
  )
  expect(TEXT).toContain(`| alarms | ${count('AWS::CloudWatch::Alarm')}, on ${measured.length} metrics × 0.10 |`)
  const [{Metrics}] = (embeddedMetrics(noCounts(), 's', 0) as {_aws: {CloudWatchMetrics: [{Metrics: unknown[]}]}})._aws
    .CloudWatchMetrics
  expect(TEXT).toContain(`| its metrics | ${Metrics.length} × 0.30 |`)
  for (const {Properties} of Object.values(Resources)) {
    const {ManagedPolicyName} = Properties ?? {}
    if (ManagedPolicyName) expect(TEXT).toContain(`\`${ManagedPolicyName.replace('prod', 'STACK')}\``)
  }
})

it('calculates prices correctly', () => {
  const seconds = 2_592_000
  const perMillion = 0.625
  const monthly = (writes: number, everySeconds: number) => (writes / everySeconds) * (seconds / 1e6) * perMillion
  /** Different ones among so many draws from 1,000. */
  const buckets = (records: number) => Math.round(1000 * (1 - 0.999 ** records))
  const has = (amount: number) => expect(TEXT).toContain(`| ${amount.toFixed(2)} |`)
  expect([buckets(RECORDS_PER_CALL), buckets(500)]).toEqual([920, 394])
  expect(Math.floor((6 * 2 ** 20) / 2486 / 10) * 10).toBe(RECORDS_PER_CALL)
  const parts = [
    monthly(100, 1),
    monthly(5, 1),
    monthly(920, 25.3),
    ((1000 * 24 * 30 * 2) / 1e6) * perMillion,
    ((1000 * 31 * 3) / 1e6) * perMillion + ((1000 * (30 * 5 + 80)) / 1e6) * 0.125,
    monthly(92, 25.3),
    ((102_451 * 1.2) / 1e6) * 0.5,
    102_451 * (0.2 / 1e6 + 2 * 0.5 * 0.0000133334),
    12 * 0.3,
    ((1000 * (24 * 90 + 90 + 3) * 0.4) / 1e6) * 0.45,
    4.8,
  ]
  for (const part of parts) has(part)
  const total = parts.reduce((sum, part) => sum + Number(part.toFixed(2)), 0)
  expect(TEXT).toContain(`| **${total.toFixed(2)}** |`)
  has(monthly(2 * 920, 25.3))
  has(monthly(394, 5))
})

it('has the headings that messages link to', async () => {
  const files = await sourcesOfInfra()
  const anchors = files.flatMap(text => [...text.matchAll(/docs\/([a-z-]+\.md#[a-z-]+)/g)].map(([, anchor]) => anchor))
  expect(anchors.length).toBeGreaterThan(1)
  const headings = await Promise.all(
    PAGES.map(async page => {
      const text = await readFile(join(ROOT, 'docs', page), 'utf8')
      return [...text.matchAll(/^#+ (.+)$/gm)].map(
        ([, words = '']) => `${page}#${words.toLowerCase().replaceAll(' ', '-')}`,
      )
    }),
  )
  expect(anchors.filter(anchor => !headings.flat().includes(anchor ?? ''))).toEqual([])
})

it("names all permissions of the aggregator's role, wherever the template grants them", () => {
  const {AggregatorRole, AggregatorArchiving} = stackWith({TableEncryptionKey: KEY}).Resources
  const documents = [...AggregatorRole.Properties.Policies, AggregatorArchiving.Properties]
  const statements = documents.flatMap(({PolicyDocument}: TemplateNode) => PolicyDocument.Statement)
  const granted = statements.flatMap(({Action}: TemplateNode) => Action)
  const section = /### A role for the aggregator\n([\s\S]*?)\n##/.exec(TEXT)?.[1] ?? ''
  const documented = [...section.matchAll(/`((?:dynamodb|kms|logs|s3|sqs|xray):[\w*]+)`/g)].map(([, action]) => action)
  expect(new Set(documented)).toEqual(new Set(granted))
})

it('names the AWS page of every link to AWS, and none twice in the table', () => {
  const [before = '', section = '', after = ''] = TEXT.split(
    /## Sources and test status\n|(?=## Findings of checkov\n)/,
  )
  const addresses = (text: string) =>
    [...text.matchAll(/\]\((https:\/\/docs\.aws\.amazon\.com\/[^)]+)\)/g)].map(([, to]) => to)
  const listed = addresses(section)
  expect(listed.length).toBeGreaterThan(10)
  expect(new Set(listed).size).toBe(listed.length)
  // Where a bucket for templates is required is a choice of the reader's account, not a step.
  const others = addresses(before + after).filter(to => !to?.includes('security_iam_id-based-policy-examples'))
  expect(others.filter(to => !listed.includes(to))).toEqual([])
})

it('answers each checkov finding once', () => {
  const section = /## Findings of checkov\n([\s\S]*?)\n#/.exec(TEXT)?.[1] ?? ''
  const findings = [...section.matchAll(/^\| (CKV_AWS_\d+) .+ \| .+ \|$/gm)].map(([, id]) => id)
  expect(section.match(/^\| (?!finding)/gm)).toHaveLength(findings.length)
  expect(new Set(findings).size).toBe(findings.length)
})

it('has a role and a workflow for GitHub Actions that match each other and this version', async () => {
  const section = /### From GitHub Actions\n([\s\S]*?)\n##/.exec(TEXT)?.[1] ?? ''
  const block = (language: string) => new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``).exec(section)?.[1] ?? ''
  const [{Principal, Action, Condition}] = JSON.parse(block('json')).Statement
  const workflow = parse(block('yaml'))
  const {environment, steps} = workflow.jobs.deploy
  const provider = 'token.actions.githubusercontent.com'
  expect(Principal.Federated.endsWith(`oidc-provider/${provider}`)).toBe(true)
  expect(Action).toBe('sts:AssumeRoleWithWebIdentity')
  // Without both, any repository on GitHub could assume the role.
  expect(Condition.StringEquals).toEqual({
    [`${provider}:aud`]: 'sts.amazonaws.com',
    [`${provider}:sub`]: `repo:OWNER/REPOSITORY:environment:${environment}`,
  })
  expect(workflow.permissions).toEqual({'id-token': 'write', contents: 'read'})
  const {version} = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
  const {run: command} = steps.find((step: {run?: string}) => step.run !== undefined)
  expect(command).toMatch(new RegExp(`^npx zael@${version.replaceAll('.', '\\.')} deploy .*--yes$`))
  const {commands} = JSON.parse(await readFile(join(ROOT, 'oclif.manifest.json'), 'utf8'))
  for (const [, flag = ''] of command.matchAll(/ --([a-z-]+)/g))
    expect(Object.keys(commands.deploy.flags)).toContain(flag)
})
