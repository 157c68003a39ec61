import {execFileSync} from 'node:child_process'
import {mkdtempSync, readdirSync, rmdirSync} from 'node:fs'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {describe, expect, it} from 'vitest'
import {formatVariables, localVariables} from '../../src/lib/local/shell-env.js'

/** Values that would run something, or end the quotes, if they were not quoted. */
const HOSTILE = [
  "a'b",
  "'; touch hacked; '",
  '$(touch hacked)',
  '`touch hacked`',
  '"; touch hacked; "',
  'a\ntouch hacked\n',
  "\\'; touch hacked; #",
  '$HOME & touch hacked',
  '*',
  '',
]

describe('the variables of the local stack', () => {
  it('are plain lines for an ordinary endpoint', () => {
    const variables = localVariables('http://127.0.0.1:8000')
    expect(formatVariables(variables, 'sh')[1]).toBe("export AWS_ENDPOINT_URL_DYNAMODB='http://127.0.0.1:8000'")
    expect(formatVariables(variables, 'fish')[0]).toBe("set -gx ZAEL_STACK 'local'")
    expect(formatVariables(variables, 'powershell')[2]).toBe("$Env:AWS_REGION = 'us-east-1'")
    expect(formatVariables(variables, 'dotenv')[1]).toBe('AWS_ENDPOINT_URL_DYNAMODB=http://127.0.0.1:8000')
  })

  it.each(HOSTILE)('keep the value %j when a shell evaluates them, and run nothing', value => {
    const cwd = mkdtempSync(join(tmpdir(), 'zael-test-'))
    for (const format of ['sh', 'dotenv'] as const) {
      const script = `${formatVariables({V: value}, format).join('\n')}\nprintf %s "$V"`
      expect(execFileSync('sh', ['-c', script], {cwd, encoding: 'utf8'})).toBe(value)
    }
    expect(readdirSync(cwd)).toEqual([])
    rmdirSync(cwd)
  })

  it('escape what ends a quoted text in fish and PowerShell', () => {
    expect(formatVariables({V: "a'\\'b"}, 'fish')).toEqual(["set -gx V 'a\\'\\\\\\'b'"])
    expect(formatVariables({V: "a'b\u2019c"}, 'powershell')).toEqual(["$Env:V = 'a''b\u2019\u2019c'"])
  })
})
