import {readFile} from 'node:fs/promises'
import {homedir} from 'node:os'
import {join} from 'node:path'
import {type CommandSet, type CompletionCandidate, complete} from './candidates.js'
import {lookUpNames} from './names.js'

/** Answers a shell: one candidate per line, with its description after a tab. Loads no more of zael than it needs. */
export async function answerShell(words: readonly string[], manifestFile: URL): Promise<void> {
  const {commands} = JSON.parse(await readFile(manifestFile, 'utf8')) as {commands: CommandSet}
  // PowerShell cannot pass an empty word.
  const typed = words.map(word => (word === '""' ? '' : word))
  const candidates = await resolved(commands, typed.length === 0 ? [''] : typed)
  for (const {value, description} of candidates) {
    process.stdout.write(description === undefined ? `${value}\n` : `${value}\t${description.split('\n')[0]}\n`)
  }
}

async function resolved(commands: CommandSet, words: readonly string[]): Promise<readonly CompletionCandidate[]> {
  const completion = complete(commands, words)
  if (completion.kind === 'words') return completion.candidates
  const {of, prefix, typed} = completion
  const current = (words.at(-1) ?? '').slice(prefix.length)
  const names = await lookUpNames(of, typed, configDir())
  return names.filter(name => name.startsWith(current)).map(name => ({value: prefix + name}))
}

/** As oclif has it, which is not loaded here. */
function configDir(): string {
  return join(process.env.XDG_CONFIG_HOME || join(homedir(), '.config'), 'zael')
}
