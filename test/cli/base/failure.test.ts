import {expect, it} from 'vitest'
import {failureJson} from '../../../src/lib/cli/base/failure.js'
import {type ErrorKind, EXIT, ZaelError} from '../../../src/lib/core/errors.js'
import {schemaProblems} from '../../e2e/schemas.js'

it('every kind of failure keeps to the published schema, with the spelling that scripts compare with', () => {
  const kinds = Object.keys(EXIT).filter((kind): kind is ErrorKind => kind !== 'ok' && kind !== 'terminated')
  const bodies = kinds.map(kind => failureJson(new ZaelError(kind, 'some.code', 'It failed.')))
  expect(bodies.flatMap(body => schemaProblems('error', body))).toEqual([])
  expect(bodies.map(({error}) => error.kind)).toContain('checkSaidNo')
})
