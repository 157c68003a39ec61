import {randomUUID} from 'node:crypto'
import {mkdtemp, readdir, readFile, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterAll, afterEach, beforeAll, describe, expect, it} from 'vitest'
import {MOTO_IDENTITY} from '../../aws/moto.js'
import {describeOnEngine} from '../../helpers/table.js'
import {useDeployer} from '../../infra/cloudformation/deployer.js'
import {isTmuxMissing, TerminalRun} from '../tmux.js'

const newName = () => `ask-${randomUUID()}`.slice(0, 20)
const [NEW, DEPLOYED, FAILED] = [newName(), newName(), newName()]

const DELETIONS = ['DeleteChangeSet', 'DeleteStack']
const CHANGES = [...DELETIONS, 'ExecuteChangeSet', 'UpdateStack', 'UpdateTerminationProtection']

// The built command line on a real terminal, against a mock of CloudFormation that follows AWS's documentation.
describe.skipIf(isTmuxMissing())('Ctrl-C at a question', () => {
  describeOnEngine('of a command that changes a stack', {timeout: 120_000}, () => {
    const deployer = useDeployer([NEW, DEPLOYED, FAILED])
    let folder = ''
    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'zael-question-'))
    })
    afterAll(() => rm(folder, {recursive: true}))
    const running = new Set<TerminalRun>()
    afterEach(async () => {
      for (const terminal of running) await terminal.close()
      running.clear()
    })

    /** Starts a command and waits for its question; returns the screen after the answer. */
    async function answered(command: string, question: RegExp, answer: (terminal: TerminalRun) => Promise<void>) {
      const {server} = deployer
      const env = {...MOTO_IDENTITY, AWS_ENDPOINT_URL: server.endpoint, NO_COLOR: '1'}
      const terminal = await TerminalRun.start(command.split(' '), {columns: 160, rows: 70, env})
      running.add(terminal)
      await terminal.until(question)
      server.takeCalls()
      await answer(terminal)
      const screen = await terminal.until(/exit code \d+\n/)
      const lines = screen.trimEnd().split('\n')
      return {end: lines.slice(-2), lines, changes: server.takeCalls().filter(isChange)}
    }
    const isChange = (action: string) => CHANGES.includes(action)
    const pressCtrlC = (terminal: TerminalRun) => terminal.press('C-c')
    const terminate = (terminal: TerminalRun) => terminal.signal('SIGTERM')
    const stack = (name: string) => deployer.server.cloudFormation.stack(name)
    const interruptedWith = (code: number) => ['Error: Interrupted: nothing was changed.', `exit code ${code}`]

    it('exits deploy of a new stack with 130, and leaves no change set or empty stack', async () => {
      const {end, changes} = await answered(`deploy --stack ${NEW}`, /This creates stack .*\[y\/N\]/, pressCtrlC)
      expect({end, changes}).toEqual({end: interruptedWith(130), changes: DELETIONS})
      expect(stack(NEW)).toBeUndefined()
      expect(await deployer.server.cloudFormation.account.find('AWS::DynamoDB::Table', NEW)).toBeUndefined()
    })

    it('exits deploy of a change with 143 on SIGTERM, removes the change set, and keeps the stack', async () => {
      await deployer.deploy(DEPLOYED)
      const command = `deploy --stack ${DEPLOYED} --lambda-memory 1024`
      const {end, changes} = await answered(command, /This changes stack .*\[y\/N\]/, terminate)
      expect({end, changes}).toEqual({end: interruptedWith(143), changes: ['DeleteChangeSet']})
      expect(stack(DEPLOYED)).toMatchObject({status: 'CREATE_COMPLETE'})
      expect(stack(DEPLOYED)?.changeSets.size).toBe(0)
    })

    it('exits delete with 130, and deletes nothing', async () => {
      const {end, changes} = await answered(`delete --stack ${DEPLOYED}`, /Type ".*" to continue/, pressCtrlC)
      expect({end, changes}).toEqual({end: interruptedWith(130), changes: []})
      expect(stack(DEPLOYED)).toMatchObject({status: 'CREATE_COMPLETE'})
    })

    it('exits deploy --export over existing files with 130, and keeps them', async () => {
      await writeFile(join(folder, 'stack.yaml'), 'mine')
      const question = /This overwrites the export in .*\[y\/N\]/
      const {end} = await answered(`deploy --export ${folder}`, question, pressCtrlC)
      expect(end).toEqual(interruptedWith(130))
      expect(await readdir(folder)).toEqual(['stack.yaml'])
      expect(await readFile(join(folder, 'stack.yaml'), 'utf8')).toBe('mine')
    })

    it('exits deploy over a failed stack with 130, and keeps that stack', async () => {
      const {failures} = deployer.server.cloudFormation
      failures.set('AggregatorRole', 'Not authorized to create a role')
      await expect(deployer.deploy(FAILED)).rejects.toMatchObject({code: 'deploy.failed'})
      failures.clear()
      const question = /This deletes the failed stack .*\[y\/N\]/
      const {end, changes} = await answered(`deploy --stack ${FAILED}`, question, pressCtrlC)
      expect({end, changes}).toEqual({end: interruptedWith(130), changes: []})
      expect(stack(FAILED)).toMatchObject({status: 'ROLLBACK_COMPLETE'})
      const later = /This creates stack .*\[y\/N\]/
      const agreed = async (terminal: TerminalRun) => {
        await terminal.press('y', 'Enter')
        await terminal.until(later)
        await terminal.press('C-c')
      }
      const {lines} = await answered(`deploy --stack ${FAILED}`, question, agreed)
      expect(lines.slice(-3)).toEqual([
        `Error: Interrupted: the failed stack "${FAILED}" was deleted; nothing else was changed.`,
        'Hint: Run the same command again.',
        'exit code 130',
      ])
      expect(stack(FAILED)).toBeUndefined()
    })
  })
})
