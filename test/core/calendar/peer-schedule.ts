import {spawn} from 'node:child_process'
import {once} from 'node:events'
import {join} from 'node:path'
import {text} from 'node:stream/consumers'
import {fileURLToPath} from 'node:url'
import {pythonEnvironment} from '../../helpers/python-environment.js'

const PROGRAM = fileURLToPath(new URL('fixtures/peer-schedule.py', import.meta.url))
const PROCESSES = 2

/** Programs of the Python client 0.17; `undefined` without Python. */
export const peerPrograms = pythonEnvironment({
  name: 'zae-limiter-0.17',
  usedFor: 'Comparisons of schedules with the Python client',
})

/** The results of `zae_limiter.schedule`, in the order of the questions. */
export async function askPeer<Question extends object, Answer>(questions: readonly Question[]): Promise<Answer[]> {
  const size = Math.ceil(questions.length / PROCESSES)
  const parts = Array.from({length: PROCESSES}, (_, at) => questions.slice(at * size, (at + 1) * size))
  return (await Promise.all(parts.map(part => askProcess<Answer>(part)))).flat()
}

async function askProcess<Answer>(questions: readonly object[]): Promise<Answer[]> {
  if (peerPrograms === undefined) throw new Error('the Python client is missing; guard the suite with peerPrograms')
  // Time zones of the pinned package tzdata, not those of the machine.
  const env = {...process.env, PYTHONTZPATH: ''}
  const child = spawn(join(peerPrograms, 'python'), [PROGRAM], {env, stdio: ['pipe', 'pipe', 'inherit']})
  const output = text(child.stdout)
  const exit = once(child, 'exit')
  child.stdin.end(questions.map(question => `${JSON.stringify(question)}\n`).join(''))
  const lines = (await output).trim().split('\n')
  const [code] = await exit
  if (code !== 0) throw new Error(`zae_limiter.schedule failed with exit code ${code}`)
  return lines.filter(line => line !== '').map(line => JSON.parse(line) as Answer)
}
