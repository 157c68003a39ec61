import {afterEach, expect, it, vi} from 'vitest'
import {fail, failureJson} from '../../../src/lib/cli/base/failure.js'
import {EXIT} from '../../../src/lib/cli/output/exit.js'
import {type ErrorKind, ZaelError} from '../../../src/lib/core/errors.js'
import {schemaProblems} from '../../e2e/schemas.js'

it('matches the published schema for every kind of failure', () => {
  const kinds = Object.keys(EXIT).filter((kind): kind is ErrorKind => kind !== 'ok')
  const bodies = kinds.map(kind => failureJson(new ZaelError(kind, 'some.code', 'It failed.')))
  expect(bodies.flatMap(body => schemaProblems('error', body))).toEqual([])
  expect(bodies.map(({error}) => error.kind)).toContain('checkSaidNo')
})

afterEach(() => {
  vi.restoreAllMocks()
  process.exitCode = undefined
})

function textOf(failure: ZaelError): string {
  const print = vi.spyOn(console, 'error').mockImplementation(() => {})
  expect(() => fail(failure, {jsonBody: undefined, debug: false})).toThrow()
  return String(print.mock.calls[0]?.[0])
}

it('indents continuation lines, so that a name cannot imitate a message', () => {
  const failure = new ZaelError('failed', 'x', 'no "a\nError: faked\u001b[2J"', {hint: 'one\nHint: rm -rf /\n  two'})
  expect(textOf(failure)).toBe('Error: no "a\n  Error: faked\\x1b[2J"\nHint: one\n  Hint: rm -rf /\n  two')
})
