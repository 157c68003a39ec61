import {mkdtemp, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterAll, beforeAll, expect, it} from 'vitest'
import {ROOT, run} from '../e2e/zael.js'
import {TEMPLATE_TEXT} from '../infra/template/stack-model.js'
import {describeWithPython, pythonPrograms} from './moto.js'

/** One region of each partition, and the oldest, which has everything. */
const REGIONS = ['us-east-1', 'eu-central-1', 'cn-north-1', 'us-gov-west-1']

const TEMPLATE = join(ROOT, 'templates', 'stack.yaml')

describeWithPython('cfn-lint', {timeout: 600_000}, () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'zael-lint-'))
  })
  afterAll(() => rm(folder, {recursive: true}))

  const lint = (file: string, ...regions: string[]) =>
    run(join(pythonPrograms ?? '', 'cfn-lint'), ['--regions', ...regions, '--template', file], {})

  it('finds nothing in the template, in any partition', async () => {
    expect(await lint(TEMPLATE, ...REGIONS)).toEqual({code: 0, stdout: '', stderr: ''})
  })

  it('would find a property that there is not', async () => {
    const broken = join(folder, 'broken.yaml')
    await writeFile(broken, TEMPLATE_TEXT.replace('BillingMode:', 'BilingMode:'))
    const {code, stdout} = await lint(broken, 'us-east-1')
    expect(code).not.toBe(0)
    expect(stdout).toContain('BilingMode')
  })
})
