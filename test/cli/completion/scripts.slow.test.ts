import {execFile} from 'node:child_process'
import {mkdtemp, readdir, rm} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {promisify} from 'node:util'
import {afterEach, beforeEach, describe, expect, it} from 'vitest'
import {isTypable} from '../../../src/lib/cli/completion/main.js'
import {COMPLETION_SCRIPTS} from '../../../src/lib/cli/completion/scripts.js'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'zael-completion-'))
})
afterEach(() => rm(folder, {recursive: true}))

/** The part of a line that bash replaces: the last word, from the last "=" or ":" or with the last "@" on. */
function partOf(line: string): string {
  const word = /(?:\\.|[^\s\\])*$/.exec(line)?.[0] ?? ''
  return /(?:@[^=:@]*|[^=:@]*)$/.exec(word)?.[0] ?? ''
}

/** The line after TAB for each candidate, and zael's arguments; runs the inserted text as a command. */
async function completeInBash(line: string, candidates: readonly string[]) {
  const script = `
    cd ${folder}
    zael() { if [ "$1" = __complete ]; then printf '%s\\n' "$@" >&3; printf '%s\\n' "\${CANDIDATES[@]}"; else printf '%s\\n' "$@"; fi; }
    ${COMPLETION_SCRIPTS.bash}
    COMP_LINE=$LINE_TYPED; COMP_POINT=\${#COMP_LINE}
    _zael_complete zael "$PART" 3>asked 2>/dev/null
    for reply in "\${COMPREPLY[@]}"; do eval "\${COMP_LINE%"$PART"}$reply"; echo ---; done
    echo; cat asked; rm asked`
  const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`
  const setUp = `CANDIDATES=(${candidates.map(quoted).join(' ')})
    LINE_TYPED=${quoted(line)}; PART=${quoted(partOf(line))}`
  const {stdout} = await promisify(execFile)('bash', ['-c', `${setUp}\n${script}`])
  const [run = '', asked = ''] = stdout.split(/---\n\n|^\n/m)
  const commands = run.split('---\n').map(text => text.split('\n').filter(Boolean))
  return {commands, asked: asked.split('\n').slice(1, -1)}
}

describe('completion in bash', () => {
  const HOSTILE = [
    'two words',
    "it's",
    'say "hi"',
    '$(touch executed)',
    '`touch executed`',
    '; touch executed',
    'a|touch executed',
    '$HOME',
    '*',
    '~',
    '!!',
    'back\\slash',
    '#comment',
    'a&b>c<d',
    '{a,b}',
    'ü €',
  ]

  it.each(HOSTILE)('inserts %j as one word, and executes nothing', async name => {
    const {commands} = await completeInBash('zael entity show ', [name])
    expect(commands).toEqual([['entity', 'show', name]])
    expect(await readdir(folder)).toEqual([])
  })

  it.each(HOSTILE)('inserts %j after a flag as one word', async name => {
    const {commands} = await completeInBash('zael why --entity=', [`--entity=${name}`])
    expect(commands).toEqual([['why', `--entity=${name}`]])
    expect(await readdir(folder)).toEqual([])
  })

  it.each([
    ['zael entity show user:', 'user:1@example.org', ['entity', 'show', 'user:']],
    ['zael entity show user:1@ex', 'user:1@example.org', ['entity', 'show', 'user:1@ex']],
    ['zael why --entity=user:1', '--entity=user:1@x=y', ['why', '--entity=user:1']],
    ['zael why --endpoint-url http://127.0.0.1:8000 a', 'ada', ['why', '--endpoint-url', 'http://127.0.0.1:8000', 'a']],
    ['zael entity show two\\ w', 'two words', ['entity', 'show', 'two w']],
  ])('inserts only the missing part after %s, and queries with whole words', async (line, name, words) => {
    const {commands, asked} = await completeInBash(line, [name])
    expect(asked).toEqual(words)
    expect(commands).toEqual([[...words.slice(0, -1), name]])
  })
})

it('omits names that a command line cannot contain', () => {
  const names = [
    '--endpoint-url=http://evil',
    '-x',
    'a\nb',
    'a\tb',
    '\u001b[31mred',
    'a\u202eb',
    '',
    'fine',
    'two words',
  ]
  expect(names.filter(isTypable)).toEqual(['fine', 'two words'])
})
