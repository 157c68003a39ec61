import {readFileSync} from 'node:fs'
import {join} from 'node:path'

/** A TypeScript example of a page, as a module of its own. */
export interface Example {
  /** Such as `README-1`. */
  readonly name: string
  readonly code: string
}

/** Declarations that the examples omit. */
export const PRELUDE = `import {RateLimiter} from 'zael'
export const limiter = new RateLimiter({stack: 'prod'})
export const callModel = async () => ({tokens: 812})
export const doTheWork = async (request: {user: string}) => new Response(request.user)
`

/** Stands for the reader's test runner: vitest's names on the runner of Node. */
export const RUNNER = {
  'package.json': '{"name": "vitest", "type": "module", "exports": {"types": "./index.d.ts", "default": "./index.js"}}',
  'index.js': `import {strictEqual} from 'node:assert'
export {after as afterAll, it} from 'node:test'
export const expect = actual => ({toBe: expected => strictEqual(actual, expected)})
`,
  'index.d.ts': `export declare function afterAll(work: () => Promise<void>): void
export declare function it(title: string, work: () => Promise<void>): void
export declare function expect(actual: unknown): {toBe(expected: unknown): void}
`,
}

/** The options under which the examples and all declarations they load must compile. */
export const COMPILER_OPTIONS = {
  target: 'es2022',
  lib: ['es2022'],
  module: 'nodenext',
  types: ['node'],
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  skipLibCheck: false,
  outDir: 'out',
}

/** All TypeScript examples of a page, in order. */
export function examplesOf(root: string, page: string): Example[] {
  const text = readFileSync(join(root, page), 'utf8')
  return [...text.matchAll(/^```ts\n([\s\S]*?)^```/gm)].map(([, code = ''], at) => ({
    name: `${page.replaceAll(/\W|md$/g, '')}-${at + 1}`,
    code: complete(code),
  }))
}

/** Completes an example: the names of the prelude, a call of its exports, and the end. */
function complete(code: string): string {
  const isTaken = (name: string) => new RegExp(`\\b${name}\\b`).test(code) && !code.includes(`const ${name} =`)
  const taken = ['limiter', 'callModel', 'doTheWork'].filter(isTaken)
  const isLeftOpen = /\blimiter\b/.test(code) && !/stack\.limiter|limiter\.close/.test(code)
  return [
    taken.length > 0 ? `import {${taken.join(', ')}} from './prelude.js'` : '',
    code,
    code.includes('function handle(')
      ? `if ((await handle({user: 'user-1'})).status !== 200) throw new Error('no 200')`
      : '',
    isLeftOpen ? 'await limiter.close()' : '',
    'export {}',
  ].join('\n')
}
