import {expect, it} from 'vitest'
import {safeLine} from '../../../src/lib/cli/output/lines.js'
import {checkLines} from '../../../src/lib/cli/stack/doctor.js'
import {failedCheck, passedCheck, warningCheck} from '../../../src/lib/infra/doctor/machine-checks.js'

it('lists checks by group with their fixes, and counts them', () => {
  const checks = [
    passedCheck('stack', 'stream', 'on, with both images'),
    passedCheck('machine', 'node', 'v22.1.0'),
    warningCheck(
      'machine',
      'clock',
      'this machine is 2.5 s behind; zael corrects for it',
      'Set the clock of this machine.',
    ),
    failedCheck(
      'stack',
      'dead letters',
      '2 in prod-aggregator-dlq',
      'aws logs tail /aws/lambda/prod-aggregator --since 1d',
    ),
  ]
  expect(checkLines(checks).join('\n')).toMatchInlineSnapshot(`
    "Machine
      ok    node          v22.1.0
      warn  clock         this machine is 2.5 s behind; zael corrects for it
                          Try: Set the clock of this machine.

    Stack
      ok    stream        on, with both images
      fail  dead letters  2 in prod-aggregator-dlq
                          Try: aws logs tail /aws/lambda/prod-aggregator --since 1d

    2 ok, 1 warn, 1 fail"
  `)
})

it('keeps a message of a service on one line', () => {
  const lines = checkLines([failedCheck('account', 'credentials', 'one\ntwo', null)])
  expect(lines.map(safeLine).filter(line => line.includes('\n'))).toEqual([])
})
