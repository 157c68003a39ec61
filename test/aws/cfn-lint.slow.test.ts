import {mkdtemp, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterAll, beforeAll, expect, it} from 'vitest'
import {compactTemplate} from '../../src/lib/files/template-yaml.js'
import {deployPolicies} from '../../src/lib/infra/deploy/export.js'
import {ROOT, run} from '../e2e/zael.js'
import {TEMPLATE_TEXT} from '../infra/template/stack-model.js'
import {describeWithPython, pythonPrograms} from './moto.js'

/** One region of each partition that cfn-lint knows. */
const REGIONS = [
  ...['us-east-1', 'cn-north-1', 'us-gov-west-1', 'eusc-de-east-1'],
  ...['us-iso-east-1', 'us-isob-east-1', 'eu-isoe-west-1', 'us-isof-south-1'],
]

const TEMPLATE = join(ROOT, 'templates', 'stack.yaml')

describeWithPython('cfn-lint', {timeout: 600_000}, () => {
  let folder: string
  let broken: string
  let sent: string
  let policies: string
  let findings: {Filename: string; Message: string}[]

  // One run for all templates: most of its time is the start of Python.
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'zael-lint-'))
    broken = join(folder, 'broken.yaml')
    await writeFile(
      broken,
      TEMPLATE_TEXT.replace('BillingMode:', 'BilingMode:').replace('dynamodb:BatchGetItem', 'dynamodb:BatchGotItem'),
    )
    sent = join(folder, 'sent.yaml')
    await writeFile(sent, compactTemplate(TEMPLATE_TEXT))
    policies = join(folder, 'policies.json')
    await writeFile(policies, JSON.stringify(await templateOfPolicies()))
    const args = ['--regions', ...REGIONS, '--format', 'json', '--template', TEMPLATE, sent, policies, broken]
    const {stdout, stderr} = await run(join(pythonPrograms ?? '', 'cfn-lint'), args, {})
    expect(stderr).toBe('')
    findings = JSON.parse(stdout)
  }, 600_000)
  afterAll(() => rm(folder, {recursive: true}))

  it('finds nothing in the template, as written and as sent, nor in exported policies, in any partition', () => {
    expect(findings.filter(({Filename}) => Filename !== broken)).toEqual([])
  })

  it('would find an unknown property, and an action that does not exist', () => {
    const found = findings.map(({Filename, Message}) => [Filename, Message])
    expect(found).toContainEqual([broken, expect.stringContaining('BilingMode')])
    expect(found).toContainEqual([broken, expect.stringContaining("'batchgotitem' is not one of")])
  })
})

/** The exported policies as resources of a template, so that cfn-lint looks at them. */
async function templateOfPolicies(): Promise<object> {
  const place = {partition: 'aws', region: 'eu-west-1', account: '123456789012', stack: 'prod'}
  const cloudFormationRole = 'arn:aws:iam::123456789012:role/cloudformation'
  const options = {iamRoles: true, encryptionKey: 'arn:aws:kms:eu-west-1:123456789012:key/1234abcd'}
  const files = await deployPolicies({place, options, cloudFormationRole, templateBucket: 'templates'})
  const resources = files.map(({policy}, at) => {
    return [`Policy${at}`, {Type: 'AWS::IAM::ManagedPolicy', Properties: {PolicyDocument: policy}}]
  })
  return {Resources: Object.fromEntries(resources)}
}
