import {spawn} from 'node:child_process'
import {ListChangeSetsCommand} from '@aws-sdk/client-cloudformation'
import {afterAll, beforeAll, expect, it} from 'vitest'
import {forEachConcurrently} from '../../src/lib/dynamo/concurrency.js'
import {readStack} from '../../src/lib/infra/stack/reader.js'
import {outcomeOf} from '../e2e/zael.js'
import {BIN, cleanEnvironment, type Outcome, ROOT, startCommand} from '../helpers/run-command.js'
import {awsProxy} from './aws-proxy.js'
import {describeWithPython, emptyMoto, MOTO_IDENTITY, type Moto} from './moto.js'
import {type MotoAccount, openMoto} from './small-stack.js'
import {stackUser} from './stack-user.js'

/*
 * A proxy in front of moto holds one call without an answer, and the command gets the signal while it waits for that
 * answer: for a new stack the built command line in a separate process, otherwise a command in this process.
 */

/** One interruption: the call is held and the signal sent when `at` calls have been seen before it. */
interface Interruption {
  readonly at: number
  readonly operation: string
  /** moto gets the call, but its answer is lost. */
  readonly forward: boolean
  readonly signal: 'SIGINT' | 'SIGTERM'
}

type Start = (
  args: readonly string[],
  env: Readonly<Record<string, string>>,
) => {readonly ended: Promise<Outcome>; readonly stop: (signal: Interruption['signal']) => void}

interface Interrupted extends Outcome {
  readonly calls: string[]
}

/** Calls that change something; deleting an empty stack is not one. */
const CHANGES = /^(Execute|Update|Put|Transact|DeleteTable|CreateTable|PUT|POST)/

const EXIT_CODE = {SIGINT: 130, SIGTERM: 143}
const NEW = 'deploy --stack NAME --no-aggregator --no-alarms --no-dashboard --no-iam --yes'
const UPDATE = 'deploy --stack NAME --encryption-key aws-managed --yes'
const DELETE = 'delete --stack NAME --confirm NAME'

describeWithPython('Ctrl-C and SIGTERM', {timeout: 120_000}, () => {
  let moto: Moto
  let account: MotoAccount

  beforeAll(async () => {
    moto = await emptyMoto()
    account = openMoto(moto)
    await stackUser(moto.endpoint).json(NEW.replace('NAME', 'existing'))
  })

  afterAll(() => account?.[Symbol.asyncDispose]())

  /** The calls of a command up to the one that begins to change something. */
  async function callsBefore(command: string, beginning: string): Promise<string[]> {
    const operations: string[] = []
    const proxy = await awsProxy(moto.endpoint, ({operation}) => {
      operations.push(operation)
      return operation === beginning ? {instead: {status: 403, body: DENIED}} : undefined
    })
    await using _ = proxy
    await stackUser(proxy.endpoint).run(command)
    return operations.slice(0, operations.indexOf(beginning))
  }

  /** Every call once: that for a change set is done and its answer is lost, the others are not done. */
  function interruptionsOf(calls: readonly string[]): Interruption[] {
    return calls.map((operation, at) => {
      const signal = at % 2 === 0 ? 'SIGINT' : 'SIGTERM'
      return {at, operation, forward: operation === 'CreateChangeSet', signal}
    })
  }

  /** Runs a command whose calls are interrupted; `start` gets the address of AWS and returns `stop`. */
  async function interrupt(command: string, {at, forward, signal}: Interruption, start: Start): Promise<Interrupted> {
    let seen = 0
    let stop = () => {}
    const hold = {forward, onHeld: () => stop()}
    const proxy = await awsProxy(moto.endpoint, () => (seen++ === at ? {hold} : undefined))
    await using _ = proxy
    const running = start(command.split(' '), {NO_COLOR: '1', ...MOTO_IDENTITY, AWS_ENDPOINT_URL: proxy.endpoint})
    stop = () => running.stop(signal)
    return {...(await running.ended), calls: proxy.takeOperations()}
  }

  const NOTHING_CHANGED = 'Error: Interrupted: nothing was changed.\n'

  function expectNothingChanged(interruption: Interruption, {code, stderr, calls}: Interrupted): void {
    expect({...interruption, code, stderr}).toMatchObject({
      code: EXIT_CODE[interruption.signal],
      stderr: expect.stringContaining(NOTHING_CHANGED),
    })
    expect(calls.filter(each => CHANGES.test(each))).toEqual([])
  }

  async function changeSetsOf(StackName: string): Promise<string[]> {
    const client = await account.aws.cloudFormation()
    const {Summaries = []} = await client.send(new ListChangeSetsCommand({StackName}))
    return Summaries.flatMap(({ChangeSetName, ExecutionStatus}) =>
      ExecutionStatus === 'AVAILABLE' ? (ChangeSetName ?? '') : [],
    )
  }

  it('change nothing and leave nothing at any call while a new stack is planned', async () => {
    const calls = await callsBefore(NEW.replace('NAME', 'new'), 'ExecuteChangeSet')
    const expected = ['DescribeStacks', 'DescribeTable', 'CreateChangeSet', 'DescribeChangeSet', 'DescribeStackEvents']
    expect(calls).toEqual(expect.arrayContaining(expected))
    const held = interruptionsOf(calls)
    const unforwarded = held.flatMap(each => (each.forward ? {...each, forward: false} : []))
    await forEachConcurrently(iterate([...held, ...unforwarded]), 3, async interruption => {
      const name = `new-${interruption.at}${interruption.forward ? '-lost' : ''}`
      expectNothingChanged(interruption, await interrupt(NEW.replace('NAME', name), interruption, inOwnProcess))
      expect({...interruption, left: await readStack(account.aws, name)}).toMatchObject({left: undefined})
    })
  })

  it('change nothing and leave no change set at any call while an update is planned', async () => {
    const command = UPDATE.replace('NAME', 'existing')
    const calls = await callsBefore(command, 'ExecuteChangeSet')
    expect(calls).toEqual(expect.arrayContaining(['ListStackResources', 'CreateChangeSet', 'DescribeStackEvents']))
    for (const interruption of interruptionsOf(calls))
      expectNothingChanged(interruption, await interrupt(command, interruption, inThisProcess))
    expect(await changeSetsOf('existing')).toEqual([])
  })

  it('change nothing at any call while a deletion is planned', async () => {
    const command = DELETE.replaceAll('NAME', 'existing')
    const calls = await callsBefore(command, 'DeleteStack')
    expect(calls).toEqual(expect.arrayContaining(['DescribeTable', 'GetTemplate', 'DescribeStackEvents']))
    for (const interruption of interruptionsOf(calls)) {
      const outcome = await interrupt(command, interruption, inThisProcess)
      expectNothingChanged(interruption, outcome)
      expect(outcome.calls).not.toContain('DeleteStack')
    }
    expect((await readStack(account.aws, 'existing'))?.status).toBe('CREATE_COMPLETE')
  })

  it('report that CloudFormation may have begun, and how to check, while the change set is executed', async () => {
    const calls = await callsBefore(NEW.replace('NAME', 'begun'), 'ExecuteChangeSet')
    const at = calls.length
    const interruption = {at, operation: 'ExecuteChangeSet', forward: true, signal: 'SIGTERM'} as const
    const {code, stderr, calls: made} = await interrupt(NEW.replace('NAME', 'begun'), interruption, inThisProcess)
    expect({code, stderr}).toMatchObject({
      code: 143,
      stderr: expect.stringContaining(
        'Error: Interrupted: CloudFormation did not respond and may have begun to change stack "begun".\n' +
          'Hint: Check its state: zael status --stack begun. Run the same command again to finish.\n',
      ),
    })
    expect(made).not.toContain('DeleteChangeSet')
    expect((await readStack(account.aws, 'begun'))?.status).toBe('CREATE_COMPLETE')
  })
})

const DENIED =
  '<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>not now</Message></Error></ErrorResponse>'

/** The built command line. */
const inOwnProcess: Start = (args, env) => {
  const child = spawn(process.execPath, [BIN, ...args], {cwd: ROOT, env: cleanEnvironment(env)})
  return {ended: outcomeOf(child), stop: signal => child.kill(signal)}
}

/** Runs the command from its sources, in this process, where a signal calls only its listeners. */
const inThisProcess: Start = (args, env) => {
  const {ended} = startCommand(args, {env})
  return {ended, stop: signal => process.emit(signal)}
}

async function* iterate<T>(all: readonly T[]): AsyncGenerator<T, void> {
  yield* all
}
