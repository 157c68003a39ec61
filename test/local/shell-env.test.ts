import {execFileSync} from 'node:child_process'
import {mkdtempSync, readdirSync, rmdirSync} from 'node:fs'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {describe, expect, it} from 'vitest'
import {formatUnset, formatVariables, localVariables, localVariablesIn} from '../../src/lib/local/shell-env.js'

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

  it('escape the characters that end a quoted text in fish and PowerShell', () => {
    expect(formatVariables({V: "a'\\'b"}, 'fish')).toEqual(["set -gx V 'a\\'\\\\\\'b'"])
    expect(formatVariables({V: "a'b\u2019c"}, 'powershell')).toEqual(["$Env:V = 'a''b\u2019\u2019c'"])
  })
})

describe('--unset', () => {
  const local = localVariables('http://127.0.0.1:8000')

  it('removes the variables that point to a local stack, so that the shell is as before', () => {
    const script = [
      ...formatVariables(local, 'sh'),
      ...formatUnset(localVariablesIn(local), 'sh'),
      'env | grep -c "ZAEL_STACK\\|AWS_" || true',
    ].join('\n')
    expect(execFileSync('sh', ['-c', script], {env: {PATH: process.env.PATH}, encoding: 'utf8'})).toBe('0\n')
    expect(formatUnset(['A'], 'fish')).toEqual(['set -e A'])
    expect(formatUnset(['A'], 'powershell')).toEqual(['Remove-Item Env:A'])
    expect(() => formatUnset(['A'], 'dotenv')).toThrow('cannot unset variables')
  })

  it("leaves a user's own values", () => {
    const own = {
      ZAEL_STACK: 'prod',
      AWS_ENDPOINT_URL_DYNAMODB: 'https://vpce-1.dynamodb.eu-west-1.vpce.amazonaws.com',
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'AKIA',
      AWS_SECRET_ACCESS_KEY: 'secret',
    }
    expect(localVariablesIn(own)).toEqual([])
    expect(localVariablesIn({...own, ZAEL_STACK: 'local'})).toEqual(['ZAEL_STACK'])
    expect(localVariablesIn({})).toEqual([])
    expect(localVariablesIn({...own, AWS_ENDPOINT_URL_DYNAMODB: 'nonsense'})).toEqual([])
  })
})
