import {mkdtemp, readFile, rm} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {describe, expect, it} from 'vitest'
import {waitForEventSource} from '../../../src/lib/infra/deploy/deploy.js'
import {deployFailed} from '../../../src/lib/infra/deploy/errors.js'
import {lambdaPackage} from '../../../src/lib/infra/stack/artifacts.js'
import type {StackEvent} from '../../../src/lib/infra/stack/events.js'
import {STACK_OPTIONS} from '../../../src/lib/infra/stack/options.js'
import {BIN, run, zael} from '../../e2e/zael.js'
import {fakeAws, instantWait} from '../fake-aws.js'

// Faults that need a deployment are in test/aws/deploy.slow.test.ts.
describe('deploying', () => {
  it('C-9 offers only options that it applies', async () => {
    const {code, stderr} = await zael(['deploy', '--stack', 'prod', '--audit-retention-days', '7'])
    expect({code, stderr}).toMatchObject({code: 2, stderr: expect.stringContaining('--audit-retention-days')})
    const template = await readFile(new URL('../../../templates/stack.yaml', import.meta.url), 'utf8')
    const unused = STACK_OPTIONS.filter(({parameter}) => template.split(parameter).length < 3)
    expect(unused).toEqual([])
  })

  it('C-10 names the first failure in the message', () => {
    const event = (logicalId: string, status: string, reason: string | null): StackEvent => {
      const isOfStack = logicalId === 'prod'
      return {
        id: status,
        at: new Date(0),
        logicalId,
        physicalId: null,
        type: 'AWS::IAM::Role',
        status,
        reason,
        isOfStack,
      }
    }
    const end = event('prod', 'ROLLBACK_COMPLETE', null)
    const events = [
      event('AggregatorRole', 'CREATE_FAILED', 'prod-aggr already exists'),
      event('AppRole', 'CREATE_FAILED', 'Resource creation cancelled'),
      end,
    ]
    const {message, details} = deployFailed('prod', events, end)
    expect(message).toBe(
      'Stack "prod" could not be deployed. AggregatorRole (AWS::IAM::Role): prod-aggr already exists',
    )
    expect(details).toMatchObject({resource: 'AggregatorRole', status: 'ROLLBACK_COMPLETE'})
  })

  it('C-10 does not wait for an event source that is ready', async () => {
    const {aws} = fakeAws({getEventSourceMapping: () => ({State: 'Enabled'})})
    const wait = instantWait()
    expect(await waitForEventSource(aws, 'id', wait)).toBe('Enabled')
    expect(wait.pauses).toEqual([])
  })

  it('C-13 uses the code that comes with zael, without a build or a network', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'zael-museum-'))
    try {
      // No program on PATH and no network: nothing can be built or downloaded.
      const isolated = {PATH: folder, HTTPS_PROXY: 'http://127.0.0.1:9'}
      const {code} = await run(process.execPath, [BIN, 'deploy', '--export', join(folder, 'out')], {env: isolated})
      expect(code).toBe(0)
      expect(await readFile(join(folder, 'out', 'aggregator.zip'))).toEqual((await lambdaPackage()).zip)
    } finally {
      await rm(folder, {recursive: true})
    }
  })
})
