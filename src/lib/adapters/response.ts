import type {RefusedRequest} from './guard.js'
import {PROBLEM_TYPE} from './problem.js'

/** What log files know as "client closed request": nobody reads the answer, but one must be made. */
export const CLIENT_GONE = 499

export function refusalResponse(outcome: RefusedRequest | {readonly kind: 'gone'}): Response {
  if (outcome.kind === 'gone') return new Response(null, {status: CLIENT_GONE})
  const {status, headers, problem} = outcome
  return new Response(JSON.stringify(problem), {status, headers: {...headers, 'Content-Type': PROBLEM_TYPE}})
}
