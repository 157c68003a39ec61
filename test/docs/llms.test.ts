import {readdirSync, readFileSync} from 'node:fs'
import {join} from 'node:path'
import {expect, it} from 'vitest'
import {ROOT} from '../helpers/run-command.js'

// links.test.ts checks its links.
it('llms.txt lists every page of docs; decisions by their index', () => {
  const text = readFileSync(join(ROOT, 'llms.txt'), 'utf8')
  const listed = new Set([...text.matchAll(/\]\(([^)#\s]+)\)/g)].map(([, to]) => to))
  const pages = readdirSync(join(ROOT, 'docs'), {recursive: true, encoding: 'utf8'})
    .map(path => `docs/${path.replaceAll('\\', '/')}`)
    .filter(path => path.endsWith('.md') && !/^docs\/decisions\/\d/.test(path))
  expect(pages.length).toBeGreaterThan(20)
  expect(pages.filter(page => !listed.has(page))).toEqual([])
})
